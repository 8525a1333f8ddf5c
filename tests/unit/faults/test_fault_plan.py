"""Fault plans are read strictly: a fault that silently never fires proves nothing."""

from typing import Any

import pytest

from refloat.faults.plan import FaultAct, FaultAt, FaultPlanError, parse_plan, spend


def test_entry_with_defaults_fires_once() -> None:
    (entry,) = parse_plan([{"at": "step", "kind": "segv"}])
    assert (entry.at, entry.kind, entry.times) == (FaultAt.STEP, FaultAct.SEGV, 1)
    assert not entry.is_selective


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"kind": "segv"}, ("at",)),
        ({"at": "step"}, ("kind",)),
        ({"at": "nowhere", "kind": "segv"}, ("nowhere", "at")),
        ({"at": "step", "kind": "explode"}, ("explode", "kind")),
        ({"at": "step", "kind": "segv", "tmies": 2}, ("tmies",)),
        ({"at": "step", "kind": "segv", "times": -1}, ("times",)),
        ({"at": "step", "kind": "segv", "max_rung": -1}, ("max_rung",)),
        ({"at": "step", "kind": "segv", "times": "2"}, ("times",)),
        ({"at": "step", "kind": "segv", "skip": -1}, ("skip",)),
        ({"at": "token", "kind": "segv"}, ("token",)),
        ({"at": "step", "kind": "segv", "token": 3}, ("token",)),
        ({"at": "token", "kind": "segv", "token": -1}, ("token",)),
        ({"at": "step", "kind": "segv", "seconds": 1.0}, ("seconds",)),
        ({"at": "step", "kind": "hang", "seconds": -1.0}, ("seconds",)),
        ({"at": "load", "kind": "segv", "match": "x"}, ("match",)),
        ({"at": "probe", "kind": "segv", "match_tokens": [1]}, ("match_tokens",)),
        ({"at": "step", "kind": "segv", "match_tokens": []}, ("match_tokens",)),
        ({"at": "step", "kind": "refuse"}, ("kind", "refuse")),
        ({"at": "load", "kind": "wrong_output"}, ("kind", "wrong_output")),
        ({"at": "load", "kind": "wedge"}, ("kind", "wedge")),
    ],
)
def test_entry_that_cannot_be_meant_is_refused_by_place_and_field(
    entry: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(FaultPlanError) as refused:
        parse_plan([{"at": "load", "kind": "kill"}, entry])
    message = str(refused.value)
    assert message.startswith("faults[1]")
    assert all(word in message for word in words)


def test_spend_takes_one_from_that_entry_alone_and_keeps_places() -> None:
    plan = [{"at": "step", "kind": "kill"}, {"at": "step", "kind": "segv", "times": 3}]
    left = spend(plan, 1)
    assert [entry.times for entry in parse_plan(left)] == [1, 2]
    left = spend(spend(left, 0), 0)
    assert [entry.times for entry in parse_plan(left)] == [0, 2]
    assert "times" not in plan[0]


def test_spend_takes_from_the_chances_that_pass_first() -> None:
    plan: tuple[dict[str, Any], ...] = ({"at": "load", "kind": "kill", "skip": 2},)
    left: list[tuple[int, int]] = []
    for _ in range(4):
        plan = spend(plan, 0)
        (entry,) = parse_plan(plan)
        left.append((entry.skip, entry.times))
    assert left == [(1, 1), (0, 1), (0, 0), (0, 0)]


def test_spend_of_an_unknown_entry_changes_nothing() -> None:
    plan = ({"at": "step", "kind": "kill"},)
    assert spend(plan, 7) == plan
    assert spend(plan, -1) == plan
