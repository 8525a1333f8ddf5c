"""Who has each generation: the line, a replica, or nobody any more. Keeps journals, places and
metrics in step through every ending; decides nothing about order or time.
"""

from collections.abc import Callable, Iterator

from refloat.generation.account import ReplicaAccount
from refloat.generation.charges import Charges
from refloat.generation.choice import Choice
from refloat.generation.drain_rate import DrainRate
from refloat.generation.fates import Fates
from refloat.generation.limits import Limits
from refloat.generation.meter import Levels, Meter
from refloat.generation.outcome import (
    cannot_resume,
    engine_gave_up,
    never_fits,
    poisonous,
    with_incident,
    with_progress,
)
from refloat.generation.preemptor import Preemptor
from refloat.generation.queue import WaitingLine
from refloat.generation.session import Session
from refloat.generation.states import GenerationEvent, GenerationState, failure_of
from refloat.generation.suspects import Suspects
from refloat.generation.trials import Trials
from refloat.observe.log import get_logger
from refloat.observe.metrics import Metrics
from refloat.supervisor.fleet import Rebuild, ReplicaLoss
from refloat.wire.problem import Problem

_WAITING = frozenset({GenerationState.QUEUED, GenerationState.PARKED})


class Custody:
    """The state that a `Dispatch` writes. Every method returns at once and sends at most commands."""

    def __init__(
        self,
        model: str,
        limits: Limits,
        metrics: Metrics,
        charges: Charges,
        clock: Callable[[], float],
    ) -> None:
        self.line = WaitingLine(limits)
        self.accounts: dict[int, ReplicaAccount] = {}
        """The ready replicas, by worker id."""
        self.sessions: dict[Session, None] = {}
        """Those without a terminal event, in order of admission."""
        self.meter = Meter(metrics, model)
        self.log = get_logger(__name__).bind(model=model)
        self.fates = Fates()
        self.suspects = Suspects()
        self.trials = Trials(self.suspects, self.line, self.accounts)
        self.preemptor = Preemptor(limits, self.line, self.accounts, self.suspects, self.meter)
        self._max_resumes = limits.max_resumes
        self._charges = charges
        self._drain_rate = DrainRate(limits.retry_after_s)
        self._clock = clock

    def open(self, session: Session) -> None:
        """Take on a session and put its choices in line."""
        self.sessions[session] = None
        for choice in session.choices:
            self.line.enqueue(choice)
        self.meter.prompt_tokens.inc(session.prompt_tokens)

    def send(self, generation: int, worker_id: int) -> None:
        """From the line to a replica that has room for it."""
        choice = self.line.get(generation)
        self.line.remove(choice)
        self.accounts[worker_id].give(choice)
        if choice.resumes:
            self.log.info(
                "generation_resumed",
                worker=worker_id,
                request_id=choice.session.request.request_id,
                choice=choice.journal.index,
                attempt=choice.journal.attempt,
                offset=len(choice.journal.emitted),
            )

    def complete(self, account: ReplicaAccount, choice: Choice, *, has_ended: bool) -> None:
        """The choice is done by its own terms, whether or not its worker knows that."""
        if not has_ended:
            account.give_up(choice)
        self._completed(choice)

    def _completed(self, choice: Choice) -> None:
        self.preemptor.lengths.note(len(choice.journal.emitted))
        self.suspects.ended(choice.journal.generation)
        self.fates.ended(choice.journal.generation, choice.journal.state)
        self.meter.ended(choice.journal.state)
        if choice.cut is not None:
            self.log.warning(
                "answer_cut",
                why=choice.cut,
                request_id=choice.session.request.request_id,
                choice=choice.journal.index,
                tokens=len(choice.journal.emitted),
            )
        self.settle(choice.session)

    def distrust(self, account: ReplicaAccount, choice: Choice) -> None:
        """The worker's account of this generation is wrong: once may be, twice is not."""
        account.give_up(choice)
        self.log.warning(
            "worker_account_wrong",
            worker=account.replica.worker_id,
            request_id=choice.session.request.request_id,
            again=choice.is_distrusted,
        )
        if choice.is_distrusted:
            self.fail(choice.session, engine_gave_up(), culprit=choice)
        else:
            choice.is_distrusted = True
            self.park(account, choice)

    def send_suspect(self) -> None:
        """Send the next one that has to run alone, if its replica is free for it."""
        while (trial := self.trials.next()) is not None:
            choice, account = trial
            if account.can_ever_hold(choice):
                self.send(choice.journal.generation, account.replica.worker_id)
            else:
                self.fail(choice.session, never_fits(choice.journal))

    def advanced(self, account: ReplicaAccount, choice: Choice) -> None:
        """It has new tokens. One that need not be alone any more makes room for the next that has
        to: it is parked, and goes on once all of them were tried."""
        journal = choice.journal
        self.fates.advanced(journal.generation)
        if not self.suspects.advanced(journal.generation, len(journal.emitted)):
            return
        account.changes += 1
        self.log.info("suspect_acquitted", request_id=choice.session.request.request_id)
        if self.suspects.alone and account.capabilities.token_resume:
            self.preemptor.stop(account, choice, "trial")

    def lose(self, account: ReplicaAccount, loss: ReplicaLoss) -> Rebuild:
        """A replica is gone: park what it was running, but for one that is convicted of it."""
        involved = {
            choice.journal.generation: choice
            for choice in account.everybody()
            if not choice.journal.is_terminal
        }
        for number in involved:
            self.fates.touched(number, loss.incident_id)
        positions = {number: len(choice.journal.emitted) for number, choice in involved.items()}
        verdict = self.suspects.lost(positions, loss.batch, is_external=loss.is_external)
        owners = account.owners()
        self.log.warning(
            "replica_lost",
            worker=account.replica.worker_id,
            cause=loss.cause,
            running=len(owners),
            alone=len(self.suspects.alone),
            rebuild=verdict.rebuild,
        )
        if verdict.convicted is not None:
            self._convict(involved[verdict.convicted], loss)
        if verdict.exhausted is not None:
            culprit = involved[verdict.exhausted]
            self.fail(culprit.session, engine_gave_up(), culprit=culprit)
        for choice in owners:
            if not choice.journal.is_terminal:  # a sibling may have taken the request with it
                self.park(account, choice)
        return verdict.rebuild

    def _convict(self, choice: Choice, loss: ReplicaLoss) -> None:
        request = choice.session.request
        self.log.error(
            "request_convicted",
            request_id=request.request_id,
            tenant=request.tenant,
            prompt_tokens=len(choice.journal.prompt),
            position=len(choice.journal.emitted),
            incident_id=loss.incident_id,
        )
        self.meter.convictions.inc()
        self._charges.charge(request.tenant, self._clock())
        problem = poisonous(loss.incident_id)
        self.fail(choice.session, problem, culprit=choice, resumable=False)

    def park(self, account: ReplicaAccount, choice: Choice) -> None:
        """It has lost its worker: let it wait for the next one, if it can go on at all."""
        if choice.journal.emitted and not account.capabilities.token_resume:
            self.fail(choice.session, cannot_resume(), culprit=choice, resumable=False)
            return
        choice.resumes += 1
        if choice.resumes > self._max_resumes:
            self.fail(choice.session, engine_gave_up(), culprit=choice)
            return
        choice.journal.apply(GenerationEvent.LOSE)
        self.line.park(choice)

    def fail(
        self,
        session: Session,
        problem: Problem,
        *,
        culprit: Choice | None = None,
        resumable: bool = True,
    ) -> None:
        """End a session: its culprit (else all its choices) failed, the others are cancelled."""
        if session.terminal is not None:
            return
        touched = (self.fates.incident_of(choice.journal.generation) for choice in session.choices)
        problem = with_incident(problem, next(filter(None, touched), None))
        for choice in session.choices:
            is_guilty = culprit is None or choice is culprit
            event = failure_of(choice.journal.state) if is_guilty else GenerationEvent.CANCEL
            self._drop(choice, event, problem.kind)
        session.fail(with_progress(problem, session.tokens_emitted, resumable=resumable))
        self._close(session, problem.kind)

    def refuse_oversized(self) -> None:
        """A first one that no cache can ever hold (the cache has shrunk) must not block the line."""
        while (head := next(iter(self.line), None)) is not None:
            if any(account.can_ever_hold(head) for account in self.accounts.values()):
                return
            if not self._has_made_do(head):
                self.fail(head.session, never_fits(head.journal))

    def _has_made_do(self, choice: Choice) -> bool:
        """An answer without a limit of its caller's has one at the size of the largest cache."""
        journal = choice.journal
        capacity = max(account.capacity_tokens or 0 for account in self.accounts.values())
        left = capacity - len(journal.prompt)
        is_open = choice.session.request.sampling.max_tokens is None
        if is_open and left > len(journal.emitted):
            self.line.shorten(choice, left)
            return True
        if not is_open or not journal.emitted:
            return False
        self.line.remove(choice)
        choice.cut_short()
        self._completed(choice)
        return True

    def abandon(self, session: Session) -> None:
        """The client has gone: nothing of its session is run or sent any more."""
        for choice in session.choices:
            self._drop(choice, GenerationEvent.CANCEL)
        self.meter.aborted.inc()
        self._close(session, "aborted")

    def levels(self) -> Levels:
        """For the gauges."""
        ledgers = [a.ledger for a in self.accounts.values() if a.ledger is not None]
        return Levels(
            waiting=len(self.line),
            running=sum(len(account.owners()) for account in self.accounts.values()),
            kv_blocks=sum(ledger.total for ledger in ledgers),
            kv_blocks_used=sum(ledger.used for ledger in ledgers),
        )

    def back_in_s(self) -> float:
        """When it is worth trying again, for one whom a full line turned away."""
        return self._drain_rate.retry_after_s(len(self.line), self._clock())

    def waiting_sessions(self) -> Iterator[Session]:
        """Sessions with a choice in the line; may be ended while iterating."""
        return iter(list(dict.fromkeys(choice.session for choice in self.line)))

    def _drop(self, choice: Choice, event: GenerationEvent, why: str | None = None) -> None:
        """Take a choice from wherever it is; `event` leads to its final state, `why` says why."""
        journal = choice.journal
        if journal.is_terminal:
            return
        if journal.state in _WAITING:
            self.line.remove(choice)
        elif choice.worker_id in self.accounts:
            self.accounts[choice.worker_id].give_up(choice)
        journal.apply(event)
        self.suspects.ended(journal.generation)
        self.fates.ended(journal.generation, journal.state, why)
        self.meter.ended(journal.state)

    def settle(self, session: Session) -> None:
        """A choice of it has ended: with the last one so has the session."""
        if session.terminal is not None:
            self._close(session, "completed")

    def _close(self, session: Session, outcome: str) -> None:
        del self.sessions[session]
        self._drain_rate.left(self._clock(), len(session.choices))
        self.meter.cached_tokens.inc(session.cached_tokens)
        self.log.info(
            "request_ended",
            request_id=session.request.request_id,
            outcome=outcome,
            prompt_tokens=session.prompt_tokens,
            completion_tokens=session.tokens_emitted,
        )
