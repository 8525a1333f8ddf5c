"""Stops generations so that others can go on. Who is chosen is `preemption.py`'s affair.

A generation that was stopped stands in the line again, before its tenant's newcomers, and goes on from
where it was. Nobody did anything wrong, so it counts for nothing.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from refloat.generation.account import ReplicaAccount
from refloat.generation.answer_lengths import AnswerLengths
from refloat.generation.choice import Choice
from refloat.generation.limits import Limits
from refloat.generation.meter import Meter
from refloat.generation.preemption import Shares, victim_of_fairness, victim_of_shortage
from refloat.generation.queue import WaitingLine
from refloat.generation.scheduler import Room, Waiting, decide
from refloat.generation.states import GenerationEvent
from refloat.generation.suspects import Suspects
from refloat.observe.log import get_logger
from refloat.supervisor.fleet import Replica


class Preemptor:
    """For one model. Line, accounts and suspects belong to the custody."""

    def __init__(
        self,
        limits: Limits,
        line: WaitingLine,
        accounts: dict[int, ReplicaAccount],
        suspects: Suspects,
        meter: Meter,
    ) -> None:
        self.lengths = AnswerLengths()
        self._limits = limits
        self._line = line
        self._accounts = accounts
        self._suspects = suspects
        self._meter = meter
        self._log = get_logger(__name__)

    def open(self, replica: Replica) -> None:
        """A replica is ready: its cache is empty, whatever an earlier one held."""
        limits = self._limits
        self._accounts[replica.worker_id] = ReplicaAccount(
            replica,
            prefix_caching=limits.prefix_caching,
            step_tokens=limits.step_tokens,
            lengths=self.lengths,
        )

    def waiting(self) -> Iterator[Waiting]:
        """Those that may be sent beside others, in the order in which they may go."""
        for choice in self._line.in_order(self._slots()):
            alone = self._suspects.must_be_alone(choice.journal.generation)
            if not alone and not choice.journal.needs_rest:
                yield choice.waiting(self.lengths)

    def startable(self, newcomers: Sequence[Choice], rooms: Sequence[Room]) -> int:
        """How many of those that wait, and of these behind them, could run at once."""
        everyone = (choice.waiting(self.lengths) for choice in chain(self._line, newcomers))
        return len(decide(everyone, rooms, None))

    def stop(self, account: ReplicaAccount, choice: Choice, why: str) -> None:
        """This one has to make room."""
        account.give_up(choice)
        self._set_aside(choice, why)
        self._log.debug(
            "generation_preempted",
            why=why,
            worker=account.replica.worker_id,
            request_id=choice.session.request.request_id,
            choice=choice.journal.index,
            offset=len(choice.journal.emitted),
        )

    def given_back(self, account: ReplicaAccount, choice: Choice) -> None:
        """The worker itself found no room for it (any longer)."""
        account.give_nothing_more()
        self._set_aside(choice, "worker")

    def relieve(self, account: ReplicaAccount) -> None:
        """Stop as many as have to be stopped so that the others find their blocks."""
        while account.is_short:
            victim = victim_of_shortage(account.running(), self._shares())
            choice = None if victim is None else account.find(victim)
            if choice is None:
                return
            self.stop(account, choice, "blocks")

    def make_fair(self, accounts: Sequence[ReplicaAccount]) -> bool:
        """Nobody can be sent to these replicas. If that is for want of room, and the first in line is
        of a tenant with less than its share, whoever has more makes some: one at a time. Whether
        somebody was asked to."""
        if not self._limits.is_fair or any(account.leaving for account in accounts):
            return False
        first = next(self.waiting(), None)
        if first is None:
            return False
        head = self._line.get(first.generation)
        if not self._slots().keys() - {head.journal.tenant}:
            return False
        if decide([first], [account.room() for account in accounts], None):
            return False
        running = {item: account for account in accounts for item in account.running()}
        victim = victim_of_fairness(
            head.journal.tenant, head.session.request.priority, running, self._shares()
        )
        for item, account in running.items():
            choice = account.find(item.generation) if item.generation == victim else None
            if choice is not None:
                self.stop(account, choice, "fairness")
                return True
        return False

    def _set_aside(self, choice: Choice, why: str) -> None:
        choice.journal.apply(GenerationEvent.PREEMPT)
        self._line.park(choice)
        self._meter.preempted(why)

    def _shares(self) -> Shares:
        return Shares(self._slots(), self._limits.tenant_weights)

    def _slots(self) -> Counter[str]:
        """Generations of each tenant that are there to stay."""
        return Counter(
            choice.journal.tenant
            for account in self._accounts.values()
            for choice in account.owners()
        )
