"""Which trials a drill has, and that each meets its own fault."""

from itertools import combinations

import pytest

from refloat.drill.trial import KINDS, SIGNALS, Phase, bodies_for, plan_for, trials
from refloat.faults.plan import FaultAct, FaultAt, parse_plan

EVERY = trials(tuple(FaultAct), tuple(Phase), 2)


def holds(prompt: list[int], mark: list[int]) -> bool:
    return any(prompt[at : at + len(mark)] == mark for at in range(len(prompt)))


def test_trials_number_every_fault_of_every_phase_those_of_loading_first() -> None:
    assert [trial.number for trial in EVERY] == list(range(len(EVERY)))
    assert len(EVERY) == 2 * sum(map(len, KINDS.values()))
    phases = [trial.phase for trial in EVERY]
    assert phases[: phases.count(Phase.LOADING)] == [Phase.LOADING] * phases.count(Phase.LOADING)


def test_trials_keep_to_the_faults_that_were_asked_for() -> None:
    chosen = trials((FaultAct.HANG,), tuple(Phase), 1)
    assert [trial.phase for trial in chosen] == [Phase.PREFILL, Phase.DECODE, Phase.LAST]


def test_plan_is_one_that_a_worker_takes_and_has_an_entry_for_each_trial_but_signals() -> None:
    entries = parse_plan(plan_for(EVERY, tokens=32))
    idle = [trial for trial in EVERY if trial.phase is Phase.IDLE]
    assert len(entries) == len(EVERY) - len(idle)
    assert {trial.act for trial in idle} <= SIGNALS.keys()
    loads = [entry.skip for entry in entries if entry.at is FaultAt.LOAD]
    assert loads == list(range(1, len(loads) + 1))
    places = {entry.token for entry in entries if entry.at is FaultAt.TOKEN}
    assert places == {0, 16, 31}


def test_marked_prompt_meets_its_own_trial_and_no_other() -> None:
    for trial in EVERY:
        first, *others = [b["prompt"] for b in bodies_for(trial, 4, 32, "m", marked=True)]
        assert holds(first, trial.mark)
        for other in EVERY:
            if other is not trial:
                assert not holds(first, other.mark)
            assert not any(holds(prompt, other.mark) for prompt in others)


def test_prompts_of_a_trial_are_distinct_and_the_same_each_time() -> None:
    prompts = [body["prompt"] for body in bodies_for(EVERY[0], 8, 32, "m", marked=True)]
    assert all(one != other for one, other in combinations(prompts, 2))
    assert prompts == [body["prompt"] for body in bodies_for(EVERY[0], 8, 32, "m", marked=True)]


@pytest.mark.parametrize("marked", [True, False])
def test_mark_is_there_only_when_asked_for(marked: bool) -> None:
    (body,) = bodies_for(EVERY[0], 1, 32, "m", marked=marked)
    assert holds(body["prompt"], EVERY[0].mark) is marked
