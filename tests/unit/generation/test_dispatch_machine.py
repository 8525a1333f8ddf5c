"""Anything may happen, in any order, on up to two workers. Always: no token lost, repeated or sent to
two clients; no cache over-admitted (the stand-in engine checks it); one terminal event for each
session; and nothing held once everybody is through.
"""

import asyncio

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from refloat.generation.events import ChoiceEnd, Completed, Delta, Failed, FinishReason
from refloat.generation.limits import Limits
from refloat.generation.session import Session
from refloat.supervisor.fleet import Availability, ReplicaLoss
from refloat.wire.faults import FaultKind
from refloat.wire.messages import Capabilities, Output, Refused, Step
from refloat.wire.problem import Problem, ProblemError, ProblemKind
from tests.unit.generation.conftest import (
    ENDS_AT,
    Answer,
    EngineReplica,
    Stage,
    text_of,
)

PROMPTS = st.one_of(
    st.lists(st.integers(0, 25), min_size=1, max_size=9),
    st.integers(0, 6).map(lambda count: [ENDS_AT, count]),
)
REFUSAL = Problem(ProblemKind.INVALID_REQUEST, "the engine would not")


class Client:
    """What one client asked for, and was told so far."""

    def __init__(self, session: Session, prompt: list[int], max_tokens: int, stop: str) -> None:
        self.session = session
        self.answer = Answer()
        self.has_left = False
        ends_at = prompt[1] if prompt[0] == ENDS_AT else max_tokens
        self.text = text_of(prompt, min(ends_at, max_tokens))
        self.reason = FinishReason.STOP if ends_at < max_tokens else FinishReason.LENGTH
        if stop and stop in self.text:
            self.text = self.text[: self.text.index(stop)]
            self.reason = FinishReason.STOP

    @property
    def is_through(self) -> bool:
        events = self.answer.events
        return bool(events) and isinstance(events[-1], Completed | Failed)

    def check(self) -> None:
        request = self.session.request
        for index in range(request.n):
            assert self.text.startswith(self.answer.text(index))
        if not self.is_through:
            assert not any(isinstance(e, Completed | Failed) for e in self.answer.events)
        elif isinstance(self.answer.terminal, Completed):
            assert self.answer.reasons() == dict.fromkeys(range(request.n), self.reason)
            assert [self.answer.text(i) for i in range(request.n)] == [self.text] * request.n
        self._check_order()

    def _check_order(self) -> None:
        ended: set[int] = set()
        for event in self.answer.events:
            if isinstance(event, Delta | ChoiceEnd):
                assert event.index not in ended, "text after the end of its choice"
            if isinstance(event, ChoiceEnd):
                ended.add(event.index)


class Machine(RuleBasedStateMachine):
    hybrid = False

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        limits = Limits(max_queue=6, hold_timeout_s=30, max_resumes=4, look_ahead=2, step_tokens=6)
        self.stage = Stage(
            limits=limits,
            blocks=9,
            block_size=4,
            max_num_seqs=3,
            context_length=30,
            capabilities=Capabilities(hybrid=self.hybrid),
        )
        self.replicas: list[EngineReplica] = []
        self.old_frames: list[tuple[int, Step]] = []
        self.clients: list[Client] = []
        self.come_up()

    def pick(self, number: int) -> EngineReplica:
        return self.replicas[number % len(self.replicas)]

    def tell(self, replica: EngineReplica, frame: Step) -> None:
        self.stage.dispatch.replica_step(replica.worker_id, frame)
        self.old_frames = [*self.old_frames[-3:], (replica.worker_id, frame)]

    # --- clients ----------------------------------------------------------------------------------

    @precondition(lambda self: self.replicas)
    @rule(
        prompt=PROMPTS,
        max_tokens=st.integers(1, 12),
        n=st.integers(1, 3),
        best_of=st.none() | st.just(3),
        stop_at=st.none() | st.integers(0, 12),
        stop_tail=st.sampled_from(["", "?"]),
        deadline_s=st.none() | st.just(20.0),
    )
    def ask(
        self,
        prompt: list[int],
        max_tokens: int,
        n: int,
        best_of: int | None,
        stop_at: int | None,
        stop_tail: str,
        deadline_s: float | None,
    ) -> None:
        # A piece of the answer, or what only begins like one.
        stop = "" if stop_at is None else text_of(prompt, stop_at + 2)[-2:] + stop_tail
        request = self.stage.request(
            prompt,
            max_tokens=max_tokens,
            n=n,
            best_of=best_of,
            stop=(stop,) if stop else (),
            deadline_s=deadline_s,
        )
        try:
            session = self.runner.run(self.stage.intake.submit(request))
        except ProblemError as error:
            if error.problem.kind is not ProblemKind.QUEUE_FULL:
                raise
            return
        self.clients.append(Client(session, prompt, max_tokens, stop))

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 99))
    def leave(self, number: int) -> None:
        client = self.clients[number % len(self.clients)]
        client.session.cancel()
        client.has_left = True

    # --- workers ----------------------------------------------------------------------------------

    @precondition(lambda self: len(self.replicas) < 2)
    @rule()
    def come_up(self) -> None:
        self.replicas.append(self.stage.ready())

    @precondition(lambda self: self.replicas)
    @rule(number=st.integers(0, 1), times=st.integers(1, 4))
    def step(self, number: int, times: int) -> None:
        for _ in range(times):
            replica = self.pick(number)
            self.tell(replica, replica.step())

    @precondition(lambda self: self.replicas)
    @rule(number=st.integers(0, 1), died_in_step=st.booleans(), failed=st.booleans())
    def be_killed(self, number: int, died_in_step: bool, failed: bool) -> None:
        loss = ReplicaLoss(FaultKind.DEATH, "killed", is_external=True)
        self.die(self.pick(number), loss, died_in_step=died_in_step, failed=failed)

    def die(
        self,
        replica: EngineReplica,
        loss: ReplicaLoss,
        *,
        died_in_step: bool = False,
        failed: bool = False,
    ) -> None:
        if died_in_step:
            self.old_frames.append((replica.worker_id, replica.step()))
        self.replicas.remove(replica)
        replica.is_dead = True
        if not self.replicas:
            self.stage.publish(Availability.FAILED if failed else Availability.RECOVERING)
        self.stage.dispatch.replica_lost(replica.worker_id, loss)

    @precondition(lambda self: self.old_frames)
    @rule(number=st.integers(0, 9))
    def send_a_frame_again(self, number: int) -> None:
        worker_id, frame = self.old_frames[number % len(self.old_frames)]
        self.stage.dispatch.replica_step(worker_id, frame)

    @precondition(lambda self: any(replica.running for replica in self.replicas))
    @rule(number=st.integers(0, 9), fault=st.sampled_from(["gap", "ignored", "refused"]))
    def misbehave(self, number: int, fault: str) -> None:
        replica = next(replica for replica in self.replicas if replica.running)
        key = list(replica.running)[number % len(replica.running)]
        sequence = replica.running[key]
        if fault == "gap":
            self.tell(replica, Step(0, (Output(*key, sequence.position + 2, (1, 2)),)))
            return
        del replica.running[key]
        if fault == "ignored":
            frame = Step(0, (Output(*key, sequence.position, (), None, "ignored"),))
            self.tell(replica, frame)
        else:
            self.stage.dispatch.replica_refused(replica.worker_id, Refused(*key, REFUSAL))

    @precondition(lambda self: self.replicas)
    @rule(number=st.integers(0, 1), suspect=st.booleans())
    def look_suspect(self, number: int, suspect: bool) -> None:
        self.stage.dispatch.replica_suspect(self.pick(number).worker_id, suspect=suspect)

    @rule(seconds=st.sampled_from([1.0, 11.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.stage.clock.pass_s(seconds)
        self.stage.dispatch.sweep()

    # --- always -----------------------------------------------------------------------------------

    @invariant()
    def clients_are_told_the_truth(self) -> None:
        for client in self.clients:
            self._read(client)
            client.check()

    def _read(self, client: Client) -> None:
        pending = client.session.has_events
        if pending and not client.is_through:
            client.answer.events += self.runner.run(client.session.next_events())

    def teardown(self) -> None:
        try:
            self._see_everybody_through()
        finally:
            self.runner.close()

    def _see_everybody_through(self) -> None:
        if not self.replicas:
            self.come_up()
        for replica in self.replicas:
            self.stage.dispatch.replica_suspect(replica.worker_id, suspect=False)
        for _ in range(1000):
            if not any(replica.running for replica in self.replicas):
                break
            for replica in self.replicas:
                self.stage.dispatch.replica_step(replica.worker_id, replica.step())
        self.clients_are_told_the_truth()
        for client in self.clients:
            assert client.is_through or client.has_left
            assert client.session.terminal is not None
            assert all(choice.journal.is_terminal for choice in client.session.choices)
        self.stage.assert_clean()


class HybridMachine(Machine):
    hybrid = True


# Shrinking would take minutes; forty steps can be read as they are.
SETTINGS = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.timeout(300)
def test_anything_in_any_order_ends_well() -> None:
    run_state_machine_as_test(Machine, settings=SETTINGS)


@pytest.mark.timeout(300)
def test_anything_in_any_order_on_a_hybrid_engine_ends_well() -> None:
    run_state_machine_as_test(HybridMachine, settings=SETTINGS)
