"""More work than the cache holds, on an engine with all its traps, gateway and worker at any distance.

Always: the engine is never asked for a block that it has not; nobody's answer is cut or wrong; all get
to their end; and no block is left behind. `hypothesis` draws the short runs, which it could shrink; a
plain generator of numbers draws the long ones, five times faster.
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

from tests.unit.generation.overload_crowd import BLOCK, LIMITS, Client, Crowd, Pressure, storm
from tests.unit.generation.overload_stage import OverloadStage
from tests.unit.generation.trapped_engine import TrappedEngine


class OverloadMachine(RuleBasedStateMachine):
    hybrid = False
    steps = 0
    """Engine steps of all examples."""

    def __init__(self) -> None:
        super().__init__()
        self.crowd: Crowd | None = None

    @initialize(blocks=st.integers(6, 16), slots=st.integers(2, 6), shares=st.booleans())
    def begin(self, blocks: int, slots: int, shares: bool) -> None:
        self.crowd = Crowd(blocks, slots, shares=shares, hybrid=self.hybrid)

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
    def ask(self, family: int, common: int, own: list[int], tokens: int, **more: object) -> None:
        prompt = [(family * 5 + place) % 26 for place in range(common)] + own
        self.there.ask(prompt, tokens, **more)

    @precondition(lambda self: self.crowd is not None and self.crowd.clients)
    @rule(number=st.integers(0, 99))
    def leave(self, number: int) -> None:
        self.there.leave(number)

    @rule(deliver=st.sampled_from([99, 99, 0, 1, 2]), hear=st.sampled_from([99, 99, 0, 1]))
    def work(self, deliver: int, hear: int) -> None:
        self.there.work(deliver, hear)

    @rule(steps=st.integers(1, 12), lag=st.sampled_from([0, 0, 1, 2, 6]))
    def go_on(self, steps: int, lag: int) -> None:
        self.there.go_on(steps, lag)

    @property
    def there(self) -> Crowd:
        assert self.crowd is not None
        return self.crowd

    @invariant()
    def engine_holds_no_more_than_it_has(self) -> None:
        if self.crowd is not None:
            self.crowd.check()

    def teardown(self) -> None:
        if self.crowd is not None:
            self.crowd.finish()
            type(self).steps += self.crowd.stage.engine.steps


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
    run_state_machine_as_test(machine, settings=bounds(15))
    assert machine.steps > 200


@pytest.mark.parametrize("hybrid", [False, True])
def test_overload_at_random_never_exhausts_the_engine(hybrid: bool) -> None:
    pressure = Pressure()
    for seed in range(4):
        pressure.add(storm(random.Random(f"{seed} {hybrid}"), 120, hybrid=hybrid))
    assert pressure.steps > 1_000
    assert pressure.preempted


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("hybrid", [False, True])
def test_overload_of_a_hundred_thousand_steps_never_exhausts_the_engine(hybrid: bool) -> None:
    pressure, seed = Pressure(), 0
    while pressure.steps < 100_000:
        pressure.add(storm(random.Random(f"long {seed} {hybrid}"), 200, hybrid=hybrid))
        seed += 1
    print(f"{seed} crowds: {vars(pressure)}")  # noqa: T201 - for docs/SOAK.md
    assert min(vars(pressure).values()) > 0, "nothing of that happened"


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
