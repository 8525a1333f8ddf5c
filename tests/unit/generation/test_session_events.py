"""What a client is told: text, ends, usage; for several choices and prompts, `best_of`, `echo`."""

import asyncio
from collections.abc import Sequence

import pytest

from refloat.generation.choice import ID_BYTES
from refloat.generation.events import ChoiceEnd, Completed, Delta, Event, FinishReason
from refloat.generation.ranking import mean_logprob
from refloat.generation.request import TextPrompt
from refloat.wire.messages import Capabilities
from tests.unit.generation.conftest import ENDS_AT, EOS, LETTERS, Stage, text_of, token_at

PROMPT = (1, 2, 3)


def test_eos_ends_with_stop_and_its_token_is_counted_but_not_shown(stage: Stage) -> None:
    async def scene() -> None:
        answer = await stage.finish(await stage.submit((ENDS_AT, 3), max_tokens=9, logprobs=True))
        assert answer.text() == text_of((ENDS_AT, 3), 3)
        assert answer.reasons() == {0: FinishReason.STOP}
        assert answer.completed.usage.completion_tokens == 4
        tokens = [t.token_id for e in answer.events if isinstance(e, Delta) for t in e.logprobs]
        assert EOS not in tokens
        assert len(tokens) == 3

    asyncio.run(scene())


@pytest.mark.parametrize("shown", [False, True])
def test_callers_stop_id_is_shown_only_if_asked_for(stage: Stage, shown: bool) -> None:
    async def scene() -> None:
        stop = token_at(PROMPT, 2)
        session = await stage.submit(
            PROMPT, max_tokens=9, stop_token_ids=(stop,), include_stop_str_in_output=shown
        )
        answer = await stage.finish(session)
        assert answer.text() == text_of(PROMPT, 3 if shown else 2)
        assert answer.reasons() == {0: FinishReason.STOP}
        assert stage.replica is not None
        assert stage.replica.cancels == [], "the engine ended it itself"

    asyncio.run(scene())


def test_eos_ignored_runs_to_the_limit(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit((ENDS_AT, 2), max_tokens=5, ignore_eos=True)
        answer = await stage.finish(session)
        assert answer.reasons() == {0: FinishReason.LENGTH}
        assert answer.completed.usage.completion_tokens == 5

    asyncio.run(scene())


def test_stop_string_in_the_last_token_wins_over_the_limit(stage: Stage) -> None:
    async def scene() -> None:
        stop = text_of(PROMPT, 4)[2:]
        answer = await stage.finish(await stage.submit(PROMPT, max_tokens=4, stop=(stop,)))
        assert answer.text() == text_of(PROMPT, 2)
        assert answer.reasons() == {0: FinishReason.STOP}

    asyncio.run(scene())


def test_text_held_for_a_stop_string_goes_out_at_the_end(stage: Stage) -> None:
    async def scene() -> None:
        stop = text_of(PROMPT, 4)[2:] + "?"
        answer = await stage.finish(await stage.submit(PROMPT, max_tokens=4, stop=(stop,)))
        assert answer.text() == text_of(PROMPT, 4)
        assert answer.reasons() == {0: FinishReason.LENGTH}

    asyncio.run(scene())


def test_stop_string_across_a_lost_worker_is_found(stage: Stage) -> None:
    async def scene() -> None:
        stop = text_of(PROMPT, 5)[2:]
        session = await stage.submit(PROMPT, max_tokens=9, stop=(stop,))
        stage.step(4)
        stage.lose()
        stage.ready()
        assert (await stage.finish(session)).text() == text_of(PROMPT, 2)

    asyncio.run(scene())


def test_hybrid_engine_asked_for_one_token_gives_one_and_is_cancelled(
    stage_of: type[Stage],
) -> None:
    stage = stage_of(capabilities=Capabilities(hybrid=True), blocks=1, context_length=4)
    replica = stage.ready()

    async def scene() -> None:
        answer = await stage.finish(await stage.submit(PROMPT, max_tokens=1))
        assert answer.text() == text_of(PROMPT, 1)
        assert answer.completed.usage.completion_tokens == 1
        assert len(replica.cancels) == 1
        stage.assert_clean()

    asyncio.run(scene())


def test_choices_are_numbered_by_prompt_and_counted_together(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit((1, 2), (3, 4, 5), n=2, max_tokens=3, seed=7)
        answer = await stage.finish(session)
        for index, prompt in enumerate([(1, 2), (1, 2), (3, 4, 5), (3, 4, 5)]):
            assert answer.text(index) == text_of(prompt, 3)
        assert set(answer.reasons()) == {0, 1, 2, 3}
        usage = answer.completed.usage
        assert (usage.prompt_tokens, usage.completion_tokens) == (5, 12)
        seeds = [choice.journal.params.seed for choice in session.choices]
        assert seeds[0] == seeds[2] == 7
        assert seeds[1] == seeds[3] != 7
        stage.assert_clean()

    asyncio.run(scene())


def test_seed_absent_is_drawn_and_differs_between_requests(stage: Stage) -> None:
    async def scene() -> None:
        seeds = {(await stage.submit(PROMPT)).choices[0].journal.params.seed for _ in range(5)}
        assert len(seeds) > 1

    asyncio.run(scene())


def test_more_choices_than_can_ever_run_wait_their_turn(stage_of: type[Stage]) -> None:
    stage = stage_of(max_num_seqs=2)
    stage.ready()

    async def scene() -> None:
        answer = await stage.finish(await stage.submit(PROMPT, n=7))
        assert [answer.text(index) for index in range(7)] == [text_of(PROMPT, 4)] * 7
        stage.assert_clean()

    asyncio.run(scene())


def test_best_of_tells_only_the_best_and_only_at_the_end(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT, (9,), n=1, best_of=3, max_tokens=2)
        assert stage.replica is not None
        assert all(add.params.logprobs for add in stage.replica.adds)
        best = session.choices[1].journal
        for step in range(2):
            outputs = stage.replica.outputs()
            for place, output in enumerate(outputs):
                value = -0.5 if output.generation == best.generation else -1.0
                outputs[place] = type(output)(
                    output.generation,
                    output.attempt,
                    output.offset,
                    (token_at(PROMPT, 20 + step),) if value == -0.5 else output.ids,
                    (value,),
                    output.ended,
                )
            stage.tell(*outputs)
        answer = await stage.read(session)
        assert answer.text(0) == "".join(LETTERS[token_at(PROMPT, 20 + n)] for n in (0, 1))
        assert answer.text(1) == text_of((9,), 2), "of equals the first"
        assert set(answer.reasons()) == {0, 1}
        assert not any(e.logprobs for e in answer.events if isinstance(e, Delta))
        assert answer.completed.usage.completion_tokens == 12
        stage.assert_clean()

    asyncio.run(scene())


def test_best_of_streams_nothing_before_the_end(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT, n=1, best_of=2, max_tokens=3)
        reader = asyncio.ensure_future(session.next_events())
        stage.step(2)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not reader.done()
        stage.step()
        events = await reader
        assert [type(event).__name__ for event in events] == ["Delta", "ChoiceEnd", "Completed"]

    asyncio.run(scene())


def test_mean_logprob_of_nothing_or_nan_is_the_worst() -> None:
    assert mean_logprob([]) == mean_logprob([float("nan"), -1.0]) == float("-inf")
    assert mean_logprob([-1.0, -3.0]) == -2.0


@pytest.mark.parametrize("best_of", [None, 2])
def test_echo_begins_each_choice_with_its_prompt(stage: Stage, best_of: int | None) -> None:
    async def scene() -> None:
        session = await stage.submit(
            TextPrompt("abc"), (3, 4), echo=True, max_tokens=2, best_of=best_of
        )
        answer = await stage.finish(session)
        assert answer.text(0) == "abc" + text_of((0, 1, 2), 2)
        assert answer.text(1) == "de" + text_of((3, 4), 2)
        first = next(event for event in answer.events if isinstance(event, Delta))
        assert first.text == "abc"

    asyncio.run(scene())


def test_events_that_came_while_nobody_read_come_together(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT, max_tokens=6)
        stage.step(3)
        held = stage.budget.held_bytes
        events = await session.next_events()
        assert [type(event) for event in events] == [Delta] * 3
        assert stage.budget.held_bytes < held
        stage.step(3)
        events = await session.next_events()
        assert isinstance(events[-2], ChoiceEnd)
        assert stage.budget.held_bytes == 0

    asyncio.run(scene())


def test_session_says_what_it_is(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT)
        assert (session.model, session.fingerprint, session.prompt_tokens) == ("m", "fp", 3)
        assert session.created > 1_700_000_000

    asyncio.run(scene())


def test_same_prompt_later_is_cached_but_for_its_last_token(stage: Stage) -> None:
    async def scene() -> None:
        prompt = tuple(range(8))  # two full blocks
        cold = await stage.finish(await stage.submit(prompt, n=2))
        assert cold.completed.usage.cached_tokens == 0, "cold twins do not share"
        warm = await stage.finish(await stage.submit(prompt, n=2))
        assert warm.completed.usage.cached_tokens == 7
        answer = tuple(token_at(prompt, position) for position in range(3))
        longer = await stage.finish(await stage.submit((*prompt, *answer, 1, 1)))
        assert longer.completed.usage.cached_tokens == 8
        assert stage.metric("refloat_cached_prompt_tokens_total") == 15
        stage.lose()
        stage.ready()
        lost = await stage.finish(await stage.submit(prompt))
        assert lost.completed.usage.cached_tokens == 0

    asyncio.run(scene())


def test_events_handed_over_are_read_and_the_end_is_left_for_the_reader(stage: Stage) -> None:
    async def scene() -> None:
        session = await stage.submit(PROMPT, max_tokens=6)
        taken: list[Sequence[Event]] = []
        has_room = [True, False, True]

        def take(events: Sequence[Event]) -> bool:
            if not has_room.pop(0):
                return False
            taken.append(events)
            return True

        session.hand_to(take)
        stage.step(2)
        assert len(await session.next_events()) == 2, "who does not wait is not called"
        held = stage.budget.held_bytes
        reader = asyncio.ensure_future(session.next_events())
        await asyncio.sleep(0)
        stage.step()
        await asyncio.sleep(0)
        assert [len(events) for events in taken] == [1]
        assert not reader.done()
        assert stage.budget.held_bytes <= held + ID_BYTES
        stage.step()
        assert len(await reader) == 1, "what was not taken is read"
        reader = asyncio.ensure_future(session.next_events())
        await asyncio.sleep(0)
        stage.step(2)
        events = await reader
        assert [type(event) for event in events] == [Delta, Delta, ChoiceEnd, Completed]
        assert len(taken) == 1
        assert stage.budget.held_bytes == 0

    asyncio.run(scene())
