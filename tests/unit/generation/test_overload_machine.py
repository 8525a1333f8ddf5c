"""More work than the cache holds, on an engine with all its traps, gateway and worker at any distance.

Always: the engine is never asked for a block that it has not; nobody's answer is cut or wrong; all get
to their end; and no block is left behind.
"""

import random

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from refloat.generation.events import Completed, FinishReason
from refloat.generation.limits import Limits
from refloat.generation.session import Session
from refloat.wire.problem import ProblemError, ProblemKind
from tests.unit.generation.conftest import Answer, text_of
from tests.unit.generation.overload_stage import OverloadStage
from tests.unit.generation.trapped_engine import TrappedEngine

LIMITS = Limits(max_queue=60, look_ahead=2, step_tokens=8)
BLOCK = 4


class Client:
    """What one client asked for."""

    def __init__(self, session: Session, prompt: list[int], tokens: int) -> None:
        self.session = session
        self.prompt = prompt
        self.tokens = tokens
        self.answer = Answer()
        self.has_left = False

    def check(self, stage: OverloadStage) -> None:
        """Whole, right, and ended by its own terms."""
        if self.has_left:
            return
        self.answer.events += stage.runner.run(self.session.next_events())
        assert isinstance(self.answer.terminal, Completed), self.answer.terminal
        for index in range(self.session.request.n):
            assert self.answer.text(index) == text_of(self.prompt, self.tokens)
            assert self.answer.reasons()[index] is FinishReason.LENGTH


class OverloadMachine(RuleBasedStateMachine):
    hybrid = False
    is_prefix_caching = True

    def __init__(self) -> None:
        super().__init__()
        self.clients: list[Client] = []

    @initialize(blocks=st.integers(6, 16), slots=st.integers(2, 6), shares=st.booleans())
    def begin(self, blocks: int, slots: int, shares: bool) -> None:
        """An engine that should share, and does or does not."""
        engine = TrappedEngine(blocks, BLOCK, shares=shares, hybrid=self.hybrid)
        self.stage = OverloadStage(engine, limits=LIMITS, max_num_seqs=slots)
        self.room = blocks * BLOCK

    @rule(
        family=st.integers(0, 2),
        common=st.integers(1, 12),
        own=st.lists(st.integers(0, 25), max_size=3),
        tokens=st.integers(1, 24),
        n=st.sampled_from([1, 1, 1, 2, 3]),
        temperature=st.sampled_from([0.0, 0.0, 1.0]),
        tenant=st.sampled_from("abc"),
        priority=st.sampled_from([0, 0, 0, 1]),
    )
    def ask(
        self,
        family: int,
        common: int,
        own: list[int],
        tokens: int,
        n: int,
        temperature: float,
        tenant: str,
        priority: int,
    ) -> None:
        prompt = [(family * 5 + place) % 26 for place in range(common)] + own
        tokens = min(tokens, self.room - len(prompt))
        if tokens < 1:
            return
        try:
            session = self.stage.ask(
                prompt,
                max_tokens=tokens,
                n=n,
                temperature=temperature,
                tenant=tenant,
                priority=priority,
            )
        except ProblemError as error:
            if error.problem.kind is not ProblemKind.QUEUE_FULL:
                raise
            return
        self.clients.append(Client(session, prompt, tokens))

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 99))
    def leave(self, number: int) -> None:
        client = self.clients[number % len(self.clients)]
        client.has_left = True
        client.session.cancel()

    @rule(deliver=st.sampled_from([99, 99, 0, 1, 2]), hear=st.sampled_from([99, 99, 0, 1]))
    def work(self, deliver: int, hear: int) -> None:
        self.stage.worker.work(deliver)
        self.stage.hear(hear)

    @rule(steps=st.integers(1, 12), lag=st.sampled_from([0, 0, 1, 2, 6]))
    def go_on(self, steps: int, lag: int) -> None:
        for _ in range(steps):
            self.stage.turn(lag)

    @invariant()
    def engine_holds_no_more_than_it_has(self) -> None:
        if hasattr(self, "stage"):
            assert self.stage.engine.used <= self.room // BLOCK

    def teardown(self) -> None:
        if not hasattr(self, "stage"):
            return
        try:
            self.stage.see_everybody_through()
            for client in self.clients:
                client.check(self.stage)
            self.stage.assert_clean()
        finally:
            self.stage.runner.close()


class HybridOverloadMachine(OverloadMachine):
    hybrid = True


def bounds(examples: int) -> settings:
    """Forty rules an example, about three engine steps each. Shrinking would take minutes."""
    return settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("machine", [OverloadMachine, HybridOverloadMachine])
def test_overload_in_any_order_never_exhausts_the_engine(
    machine: type[OverloadMachine],
) -> None:
    run_state_machine_as_test(machine, settings=bounds(30))


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("machine", [OverloadMachine, HybridOverloadMachine])
def test_overload_of_a_hundred_thousand_steps_never_exhausts_the_engine(
    machine: type[OverloadMachine],
) -> None:
    run_state_machine_as_test(machine, settings=bounds(1000))


@pytest.mark.parametrize("lag", [0, 1, 8])
@pytest.mark.parametrize("shares", [True, False])
def test_overload_of_ten_times_the_cache_preempts_and_answers_everybody(
    shares: bool, lag: int
) -> None:
    chance = random.Random(f"{shares} {lag}")
    engine = TrappedEngine(20, BLOCK, shares=shares)
    stage = OverloadStage(engine, limits=LIMITS, max_num_seqs=8)
    # answers are mostly short, and then they are not: what was foreseen is wrong
    clients = [Client(stage.ask([place], max_tokens=4), [place], 4) for place in range(20)]
    stage.see_everybody_through()
    while len(clients) < 60:
        prompt = [chance.randrange(3)] * chance.randrange(1, 14)
        tokens = chance.randrange(10, 40)
        clients.append(Client(stage.ask(prompt, max_tokens=tokens), prompt, tokens))
        stage.turn(lag)
    stage.see_everybody_through()
    for client in clients:
        client.check(stage)
    stage.assert_clean()
    assert stage.metric("refloat_preemptions_total", why="blocks") > 3
    assert lag < 8 or stage.given_back > 0, "frames are late, so the worker had to see to it"
    assert (engine.shared > 0) is shares
    stage.runner.close()
