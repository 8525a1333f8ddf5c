"""Poison among anything that may happen, on up to two workers. Always: no innocent request is ever
convicted; a poisonous choice ends at most four workers, and is convicted if its client stays; and all
that the machine of `test_dispatch_machine.py` demands.
"""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from refloat.generation.events import Failed
from refloat.supervisor.fleet import ReplicaLoss
from refloat.wire.faults import FaultKind
from refloat.wire.problem import ProblemError, ProblemKind
from tests.unit.generation.conftest import EngineReplica
from tests.unit.generation.test_dispatch_machine import SETTINGS, Client, Machine

MOST_WORKERS = 4


class PoisonMachine(Machine):
    """Some generations end their worker in the step for one of their tokens."""

    def __init__(self) -> None:
        self.fatal: dict[int, int] = {}
        """Generation and position."""
        self.guilty: set[Client] = set()
        self.cost = 0
        super().__init__()

    @precondition(lambda self: self.replicas and len(self.guilty) < 3)
    @rule(
        letters=st.lists(st.integers(0, 25), min_size=1, max_size=9),
        position=st.integers(0, 5),
        n=st.integers(1, 2),
    )
    def ask_for_trouble(self, letters: list[int], position: int, n: int) -> None:
        request = self.stage.request(letters, max_tokens=8, n=n, tenant=f"t{len(self.guilty)}")
        try:
            session = self.runner.run(self.stage.intake.submit(request))
        except ProblemError as error:
            if error.problem.kind is not ProblemKind.QUEUE_FULL:
                raise
            return
        client = Client(session, letters, 8, "")
        self.clients.append(client)
        self.guilty.add(client)
        for choice in session.choices:
            self.fatal[choice.journal.generation] = position

    def step_once(self, replica: EngineReplica) -> bool:
        """Whether the worker lived through it."""
        if not any(
            self.fatal.get(generation) == sequence.position and not sequence.is_cancelled
            for (generation, _), sequence in replica.running.items()
        ):
            self.tell(replica, replica.step())
            return True
        self.cost += 1
        batch = tuple(generation for generation, _ in replica.running)
        self.die(replica, ReplicaLoss(FaultKind.STEP_FAULT, "raised", batch))
        assert self.cost <= MOST_WORKERS * len(self.fatal)
        return False

    @precondition(lambda self: self.replicas)
    @rule(number=st.integers(0, 1), times=st.integers(1, 4))
    def step(self, number: int, times: int) -> None:
        for _ in range(times):
            if not self.replicas or not self.step_once(self.pick(number)):
                return

    @precondition(lambda self: not self.replicas)
    @rule()
    def come_back(self) -> None:
        self.come_up()

    def teardown(self) -> None:
        try:
            if not self.replicas:
                self.come_up()
            for replica in self.replicas:
                self.stage.dispatch.replica_suspect(replica.worker_id, suspect=False)
            self._step_until_nothing_runs()
            self._judge()
        finally:
            super().teardown()

    def _step_until_nothing_runs(self) -> None:
        for _ in range(2000):
            if not any(replica.running for replica in self.replicas):
                return
            for replica in list(self.replicas):
                if not self.step_once(replica) and not self.replicas:
                    self.come_up()
        raise AssertionError("does not end")

    def _judge(self) -> None:
        for client in self.clients:
            terminal = client.session.terminal
            assert terminal is not None
            kind = terminal.problem.kind if isinstance(terminal, Failed) else None
            if client not in self.guilty:
                assert kind is not ProblemKind.POISON_REQUEST
            elif kind is None:
                assert all(
                    len(choice.journal.emitted) <= self.fatal[choice.journal.generation]
                    for choice in client.session.choices
                ), "it got past the token that ends a worker"


@pytest.mark.timeout(300)
def test_poison_among_anything_in_any_order_is_the_only_one_convicted() -> None:
    run_state_machine_as_test(PoisonMachine, settings=SETTINGS)
