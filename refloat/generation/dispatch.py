"""The one writer of a model's journals: sends generations to its replicas and takes what comes back.

Listens to the supervisor (`ReplicaListener`). A replica that is lost, or whose account of a
generation is wrong, costs a generation nothing but time: it goes on, before all others that wait,
as prompt + emitted ids (`custody.py` says what ends instead). Deadlines are watched by `run`.
"""

import asyncio
import time
from collections.abc import Callable
from typing import NoReturn

from refloat.generation.account import ReplicaAccount
from refloat.generation.charges import Charges
from refloat.generation.choice import Choice
from refloat.generation.custody import Custody
from refloat.generation.fates import IncidentPort
from refloat.generation.gate import Gate, draining, queue_full
from refloat.generation.journal import Accepted
from refloat.generation.limits import Limits
from refloat.generation.meter import Levels
from refloat.generation.outcome import deadline_exceeded, not_recovered
from refloat.generation.ports import PrepPort
from refloat.generation.resumer import GuideResumer
from refloat.generation.scheduler import Pace, Room, decide
from refloat.generation.session import Session
from refloat.observe.metrics import Metrics
from refloat.parsing.vocabulary import Vocabulary
from refloat.supervisor.fleet import (
    Availability,
    Fleet,
    ModelSnapshot,
    Rebuild,
    Replica,
    ReplicaLoss,
)
from refloat.wire.messages import ENDED_PREEMPTED, Output, Refused, Step

#: Waiting for such a model is over at once.
_HOPELESS = frozenset({Availability.FAILED, Availability.UNLOADED})


class Dispatch:
    """Runs on the event loop; every method but `run` and `drain` returns at once."""

    def __init__(
        self,
        model: str,
        fleet: Fleet,
        limits: Limits,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        charges: Charges | None = None,
    ) -> None:
        """`charges` is one for all models of a server."""
        self.model = model
        self.gate = Gate(model, fleet, limits, clock)
        self.limits = limits
        self.clock = clock
        self._fleet = fleet
        self._pace = Pace(limits.look_ahead, limits.step_tokens)
        self.charges = charges or Charges(limits.max_convictions, limits.conviction_window_s)
        self._custody = Custody(model, limits, metrics, self.charges, clock)
        self._meter = self._custody.meter
        self._meter.show(self._levels)
        self._down_since_s: float | None = clock()
        self._idle_waiters: set[asyncio.Future[None]] = set()

    def resume_guides(self, prep: PrepPort, vocabulary: Callable[[], Vocabulary]) -> None:
        """Ask `prep` what guides leave for generations that lose their worker."""
        resumer = GuideResumer(prep, vocabulary, self._custody, self._pump)
        self._custody.line.attendant = resumer

    def tell_incidents(self, port: IncidentPort) -> None:
        """Tell `port` from now on what becomes of generations that lose their worker."""
        self._custody.fates.port = port

    # --- for the intake ---------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether every session has had its terminal event."""
        return not self._custody.sessions

    def check_tenant(self, tenant: str) -> None:
        """Raises `ProblemError` for one whose requests have cost too many workers of late."""
        problem = self.charges.problem(tenant, self.clock())
        if problem is not None:
            raise problem.raised()

    def admit(self, session: Session) -> None:
        """Take on a session that has begun. Raises `ProblemError`: not servable, or no place."""
        self.check_tenant(session.request.tenant)
        problem = self.gate.problem()
        if problem is not None:
            raise problem.raised()
        choices = session.choices
        startable = self._custody.preemptor.startable(choices, self._rooms())
        if not self._custody.line.has_room_for(choices, startable):
            raise queue_full(self.model, self._custody.back_in_s()).raised()
        session.admitted_s = self.clock()
        self._custody.open(session)
        self._pump()

    def abandon(self, session: Session) -> None:
        """The session's client has gone: nothing of it is run or sent any more."""
        self._custody.abandon(session)
        self._pump()

    def has_waiting(self, but: frozenset[Session]) -> bool:
        """Whether any session but those waits for a place on a worker that is there."""
        waiting = self._custody.waiting_sessions() if self._custody.accounts else ()
        return any(session not in but for session in waiting)

    # --- for the supervisor -----------------------------------------------------------------------

    def replica_ready(self, replica: Replica) -> None:
        """A worker is ready: its cache is empty, whatever an earlier one held."""
        self._custody.preemptor.open(replica)
        self._note_readiness()
        self._pump()

    def replica_step(self, worker_id: int, step: Step) -> None:
        """One engine step's outputs. Those of workers already lost are ignored."""
        account = self._custody.accounts.get(worker_id)
        if account is None:
            return
        changes = account.changes
        self._meter.engine_steps.inc()
        if not account.observe(step.used_blocks):
            self._custody.log.warning("prefix_sharing_not_seen", worker=worker_id)
        now_s = self.clock()
        tokens = 0
        for output in step.outputs:
            tokens += self._take(account, output, now_s)
        if tokens:
            self._meter.generated_tokens.inc(tokens)
        if account.is_short:
            self._custody.preemptor.relieve(account)
        # who had to wait before has to wait still, if nobody has made room
        if account.changes != changes:
            self._pump()

    def replica_refused(self, worker_id: int, refused: Refused) -> None:
        """The engine would not take an attempt: that request ends, with the engine's reason."""
        account = self._custody.accounts.get(worker_id)
        if account is None:
            return
        key = (refused.generation, refused.attempt)
        choice = account.owner(key)
        account.settle(key)
        if choice is not None:
            self._custody.fail(choice.session, refused.problem, culprit=choice)
        self._pump()

    def replica_suspect(self, worker_id: int, *, suspect: bool) -> None:
        """A suspect worker keeps what it has and gets nothing new."""
        account = self._custody.accounts.get(worker_id)
        if account is not None:
            account.is_suspect = suspect
            self._note_readiness()
            self._pump()

    def replica_lost(self, worker_id: int, loss: ReplicaLoss) -> Rebuild:
        """A worker is gone with all it held: what it was running is parked. What the next one should
        be like, as far as somebody is suspected."""
        account = self._custody.accounts.pop(worker_id, None)
        if account is None:
            return Rebuild.SAME
        self._note_readiness()
        rebuild = self._custody.lose(account, loss)
        self._end_if_hopeless()
        self._pump()
        return rebuild

    def model_changed(self, snapshot: ModelSnapshot) -> None:
        """Whoever waits for the model looks again; nobody goes on waiting for a failed one."""
        self.gate.changed()
        self._end_if_hopeless()

    # --- time -------------------------------------------------------------------------------------

    async def run(self) -> NoReturn:
        """Watch deadlines for ever. Essential: if this task ends, the process must."""
        while True:
            await asyncio.sleep(self.limits.sweep_interval_s)
            self.sweep()

    def sweep(self) -> None:
        """End what has waited or run for too long."""
        self._custody.line.check()
        now_s = self.clock()
        for session in list(self._custody.sessions):
            if session.deadline_s is not None and now_s >= session.deadline_s:
                self._custody.fail(session, deadline_exceeded())
        if self._down_since_s is not None:
            problem = not_recovered(self.model, self._fleet.get(self.model))
            for session in self._custody.waiting_sessions():
                since_s = max(self._down_since_s, session.admitted_s)
                if now_s - since_s >= self.limits.hold_timeout_s:
                    self._custody.fail(session, problem)
        self._pump()

    async def drain(self, deadline_s: float) -> bool:
        """Take nothing new; let what was taken go on for this many seconds; end the rest.

        Whether all of it ended by itself.
        """
        self.gate.drain()
        idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle_waiters.add(idle)
        self._note_idleness()
        try:
            async with asyncio.timeout(deadline_s):
                await idle
        except TimeoutError:
            for session in list(self._custody.sessions):
                self._custody.fail(session, draining(self.model))
            return False
        finally:
            self._idle_waiters.discard(idle)
        return True

    # --- within -----------------------------------------------------------------------------------

    def _take(self, account: ReplicaAccount, output: Output, now_s: float) -> int:
        """What one sequence gained. How many tokens of it were new."""
        key = (output.generation, output.attempt)
        has_ended = output.ended is not None
        choice = account.owner(key)
        if choice is None:
            account.grew(key, output.ids)
            if has_ended:
                account.settle(key)
            return 0
        count = 0
        journal = choice.journal
        accepted = journal.accept(output)
        if isinstance(accepted, Accepted) and accepted.ids:
            count = len(accepted.ids)
            account.grew(key, accepted.ids)
            self._note_time(choice, now_s)
            if choice.advance(accepted, now_s):
                self._custody.complete(account, choice, has_ended=has_ended)
            elif not has_ended:
                self._custody.advanced(account, choice)
        if has_ended:
            account.settle(key)
        if output.ended == ENDED_PREEMPTED and not journal.is_terminal:
            self._custody.preemptor.given_back(account, choice)
        elif (has_ended or not isinstance(accepted, Accepted)) and not journal.is_terminal:
            self._custody.distrust(account, choice)
        return count

    def _note_time(self, choice: Choice, now_s: float) -> None:
        last_s = choice.last_token_s
        choice.last_token_s = now_s
        if last_s is None:
            self._meter.ttft_seconds.observe(now_s - choice.session.accepted_s)
        else:
            self._meter.inter_token_seconds.observe(now_s - last_s)

    def _pump(self) -> None:
        """Send whatever may go now. Ends every entry point."""
        line = self._custody.line
        self._custody.send_suspect()
        while line and (rooms := self._rooms()):
            self._custody.refuse_oversized()
            assignments = decide(self._custody.preemptor.waiting(), rooms, self._pace)
            accounts = self._custody.trials.open_accounts()
            if not assignments and not self._custody.preemptor.make_fair(accounts):
                break
            for generation, worker_id in assignments:
                self._custody.send(generation, worker_id)
        self._note_idleness()

    def _rooms(self) -> list[Room]:
        return [account.room() for account in self._custody.trials.open_accounts()]

    def _note_readiness(self) -> None:
        if any(not account.is_suspect for account in self._custody.accounts.values()):
            self._down_since_s = None
        elif self._down_since_s is None:
            self._down_since_s = self.clock()

    def _note_idleness(self) -> None:
        if self._idle_waiters and self.idle:
            for waiter in self._idle_waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def _end_if_hopeless(self) -> None:
        snapshot = self._fleet.get(self.model)
        if snapshot is not None and snapshot.availability in _HOPELESS:
            for session in self._custody.waiting_sessions():
                self._custody.fail(session, not_recovered(self.model, snapshot))

    def _levels(self) -> Levels:
        levels = self._custody.levels()
        return levels._replace(waiting=levels.waiting + self.gate.waiting)
