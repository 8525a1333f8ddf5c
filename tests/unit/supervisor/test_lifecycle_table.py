"""The two tables: what they allow, and that every way through them keeps the promises made."""

import pytest

from refloat.supervisor.lifecycle import (
    INITIAL,
    LIVE,
    PREP_TABLE,
    WORKER_TABLE,
    Effect,
    IllegalTransitionError,
    Table,
    WorkerEvent,
    WorkerState,
    transition,
)

_S = WorkerState
_E = WorkerEvent
_TABLES = pytest.mark.parametrize("table", [WORKER_TABLE, PREP_TABLE], ids=["worker", "prep"])


def _reachable(table: Table) -> set[WorkerState]:
    reached = {INITIAL[0]}
    while True:
        more = {step[0] for (state, _), step in table.items() if state in reached} - reached
        if not more:
            return reached
        reached |= more


def test_worker_table_reaches_every_state() -> None:
    assert _reachable(WORKER_TABLE) == set(WorkerState)


def test_prep_table_reaches_all_but_the_states_of_a_worker_alone() -> None:
    assert _reachable(PREP_TABLE) == set(WorkerState) - {_S.PROBING, _S.SUSPECT}


@_TABLES
def test_table_each_pair_is_entered_or_illegal(table: Table) -> None:
    for state in WorkerState:
        for event in WorkerEvent:
            if (state, event) in table:
                assert transition(table, state, event) == table[state, event]
            else:
                with pytest.raises(IllegalTransitionError, match=event):
                    transition(table, state, event)


@_TABLES
def test_table_every_live_state_can_be_lost_and_stopped(table: Table) -> None:
    for state in LIVE & _reachable(table):
        lost, effects = table[state, _E.FAULT]
        assert lost is _S.EXITED
        assert effects[-2:] == (Effect.KILL, Effect.REAP)
        if state is not _S.DRAINING:
            assert table[state, _E.STOP][0] is _S.DRAINING


@_TABLES
def test_table_readiness_is_announced_and_withdrawn_in_pairs(table: Table) -> None:
    serving = {_S.READY, _S.SUSPECT}
    for (state, _), (after, effects) in table.items():
        assert (Effect.ANNOUNCE_READY in effects) == (state not in serving and after in serving)
        assert (Effect.ANNOUNCE_LOST in effects) == (state in serving and after not in serving)
        if Effect.ANNOUNCE_LOST in effects:
            assert effects[0] is Effect.ANNOUNCE_LOST


@_TABLES
def test_table_a_child_is_spawned_exactly_on_entering_spawning(table: Table) -> None:
    assert INITIAL == (_S.SPAWNING, (Effect.SPAWN,))
    for after, effects in table.values():
        assert (Effect.SPAWN in effects) == (after is _S.SPAWNING)


def test_worker_table_ready_is_entered_by_the_probe_alone() -> None:
    entries = {
        (state, event)
        for (state, event), (after, _) in WORKER_TABLE.items()
        if after is _S.READY and state is not _S.SUSPECT
    }
    assert entries == {(_S.PROBING, _E.PROVED)}


def test_table_giving_up_starts_no_cool_down_but_breaking_does() -> None:
    assert WORKER_TABLE[_S.EXITED, _E.GIVE_UP] == (_S.FAILED, ())
    assert WORKER_TABLE[_S.EXITED, _E.BREAK] == (_S.FAILED, (Effect.OPEN_BREAKER,))
    assert WORKER_TABLE[_S.FAILED, _E.RESET][0] is _S.SPAWNING


def test_table_a_stuck_slot_is_never_respawned_directly() -> None:
    followers = {step[0] for (state, _), step in WORKER_TABLE.items() if state is _S.STUCK}
    assert followers == {_S.FAILED, _S.STUCK}
