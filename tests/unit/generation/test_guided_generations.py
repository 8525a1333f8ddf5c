"""Generations that are held to a form: what is refused, what is made once, and how they are resumed."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from refloat.generation.events import FinishReason
from refloat.generation.journal import Journal
from refloat.generation.limits import Limits
from refloat.generation.preemption import Running, Shares, victim_of_shortage
from refloat.generation.request import ChatPrompt
from refloat.generation.resumer import GuideResumer, Seam, seam_of
from refloat.generation.session import Session
from refloat.generation.wishes import wish_for
from refloat.parsing.vocabulary import Vocabulary
from refloat.wire.guide import Guide, GuideKind, GuideRequest, ReasoningSpan
from refloat.wire.messages import Capabilities, SamplingParams, pack_ids
from refloat.wire.prep_messages import TokenTable
from refloat.wire.problem import Problem, ProblemKind
from tests.unit.generation.conftest import ENDS_AT, LETTERS, AlphabetPrep, Stage, text_of

PROMPT = (1, 2, 3)
WISH = GuideRequest(GuideKind.REGEX, "x", "guided_regex")
GUIDE = Guide("root ::= x")
CHAT = ChatPrompt(messages=[{"role": "user", "content": "abc"}])
THINKS: dict[str, Any] = {
    "template_text": "<think> {{ '</think>' }} enable_thinking",
    "reasoning_parser": "think",
}


@pytest.fixture
def guided(stage_of: type[Stage]) -> Stage:
    made = stage_of(capabilities=Capabilities(guided=True))
    made.ready()
    return made


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_prep_is_told_whose_request_it_prepares(guided: Stage) -> None:
    async def scene() -> None:
        session = await guided.submit(CHAT, guide=WISH, tenant="ann", max_tokens=2)
        assert guided.prep.wishes
        assert set(guided.prep.tenants) == {"ann"}
        await guided.finish(session)

    asyncio.run(scene())


async def gone_on_unguided(
    stage: Stage,
    prompt: tuple[int, ...] = PROMPT,
    *,
    most: int = 6,
    steps: int = 2,
    kind: ProblemKind = ProblemKind.INVALID_REQUEST,
) -> Session:
    """A guided generation that has lost its worker, and of whose guide no rest could be made."""
    stage.prep.rest_problem = Problem(kind, "not now")
    session = await stage.submit(prompt, max_tokens=most, guide=WISH)
    stage.step(steps)
    stage.lose()
    stage.ready()
    await turns()
    return session


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"echo": True}, "echo"),
        ({"ignore_eos": True, "stop_token_ids": (3,)}, "ignore_eos"),
        ({"min_tokens": 2}, "min_tokens"),
    ],
)
def test_guide_beside_what_it_cannot_go_with_is_refused(
    guided: Stage, fields: dict[str, Any], param: str
) -> None:
    problem = asyncio.run(guided.refusal(PROMPT, guide=WISH, **fields))
    assert (problem.kind, problem.param) == (ProblemKind.INVALID_REQUEST, param)
    assert guided.prep.wishes == []
    guided.assert_clean()


def test_guide_on_an_engine_without_grammars_is_refused(stage: Stage) -> None:
    problem = asyncio.run(stage.refusal(PROMPT, guide=WISH))
    assert (problem.kind, problem.param) == (ProblemKind.UNSUPPORTED_VALUE, "guided_regex")


def test_guide_without_a_token_that_could_end_the_answer_is_refused(stage_of: type[Stage]) -> None:
    stage = stage_of(capabilities=Capabilities(guided=True), eos_token_ids=())
    stage.ready()
    problem = asyncio.run(stage.refusal(PROMPT, guide=WISH))
    assert (problem.kind, problem.param) == (ProblemKind.UNSUPPORTED_VALUE, "guided_regex")


def test_guide_reaches_the_engine_and_is_made_once_for_all_who_ask_the_same(guided: Stage) -> None:
    async def scene() -> None:
        first, second = await asyncio.gather(*(guided.submit(PROMPT, guide=WISH) for _ in "ab"))
        third = await guided.submit(PROMPT, guide=WISH)
        assert guided.replica is not None
        assert [add.params.guide for add in guided.replica.adds] == [GUIDE] * 3
        assert guided.prep.wishes == [WISH]
        for session in (first, second, third):
            assert (await guided.finish(session)).reasons() == {0: FinishReason.LENGTH}
        guided.assert_clean()

    asyncio.run(scene())


def test_refused_wish_is_refused_again_without_another_trial(guided: Stage) -> None:
    refusal = Problem(ProblemKind.INVALID_REQUEST, "no", param="guided_regex")
    guided.prep.guide_problem = refusal

    async def scene() -> None:
        for _ in range(2):
            assert await guided.refusal(PROMPT, guide=WISH) == refusal

    asyncio.run(scene())
    assert len(guided.prep.wishes) == 1


def test_wish_that_could_not_be_tried_is_tried_again(guided: Stage) -> None:
    guided.prep.guide_problem = Problem(ProblemKind.OVERLOADED, "busy")

    async def scene() -> None:
        await guided.refusal(PROMPT, guide=WISH)
        guided.prep.guide_problem = None
        session = await guided.submit(PROMPT, guide=WISH)
        await guided.finish(session)

    asyncio.run(scene())
    assert len(guided.prep.wishes) == 2


def test_who_waits_for_the_same_trial_does_not_go_with_the_first_who_asked(guided: Stage) -> None:
    guided.prep.yields = 3

    async def scene() -> None:
        guided.prep.may_make.clear()
        first = asyncio.ensure_future(guided.submit(PROMPT, guide=WISH))
        second = asyncio.ensure_future(guided.submit(PROMPT, guide=WISH))
        await turns()
        first.cancel()
        await turns()
        guided.prep.may_make.set()
        await guided.finish(await second)

    asyncio.run(scene())
    assert len(guided.prep.wishes) == 1


def test_trial_ends_with_the_last_who_asked_and_is_made_anew_for_the_next(guided: Stage) -> None:
    async def scene() -> None:
        guided.prep.may_make.clear()
        askers = [asyncio.ensure_future(guided.submit(PROMPT, guide=WISH)) for _ in range(2)]
        await turns()
        assert "guide" in {task.get_name() for task in asyncio.all_tasks()}
        for asker in askers:
            asker.cancel()
        await turns()
        assert "guide" not in {task.get_name() for task in asyncio.all_tasks()}
        guided.prep.may_make.set()
        await guided.finish(await guided.submit(PROMPT, guide=WISH))

    asyncio.run(scene())
    assert len(guided.prep.wishes) == 2


@pytest.mark.parametrize(
    ("ids", "span"),
    [
        ((0, 1, 2), ReasoningSpan("<think>", "</think>")),
        ((0, 1, 2, 3, 4), ReasoningSpan("<think>", "</think>", is_open=True)),
        ((0, 3, 4, 5, 4), None),
    ],
)
def test_reasoning_model_may_reason_before_the_form(
    stage_of: type[Stage], ids: tuple[int, ...], span: ReasoningSpan | None
) -> None:
    stage = stage_of(capabilities=Capabilities(guided=True), **THINKS)
    texts = [*"abc", "<think>", "\n", "</think>"]
    table = TokenTable("".join(texts).encode(), pack_ids([len(text) for text in texts]), (3, 5))
    wish = wish_for(WISH, CHAT, ids, stage.facts, Vocabulary.from_table(table))
    assert wish == msgspec.structs.replace(WISH, reasoning=span)


@pytest.mark.parametrize("holds", [True, False])
def test_guided_text_is_held_until_it_is_whole_if_asked_for(guided: Stage, holds: bool) -> None:
    async def scene() -> None:
        session = await guided.submit(PROMPT, max_tokens=4, guide=WISH, holds_guided=holds)
        guided.step(3)
        assert session.has_events is not holds
        held_bytes = guided.budget.held_bytes
        guided.step()
        answer = await guided.finish(session)
        assert answer.text() == text_of(PROMPT, 4)
        assert held_bytes > 0
        guided.assert_clean()

    asyncio.run(scene())


def test_held_text_of_an_answer_that_fails_is_never_told(guided: Stage) -> None:
    async def scene() -> None:
        guided.prep.hopeless = {text_of(PROMPT, 2)}
        session = await guided.submit(PROMPT, max_tokens=6, guide=WISH, holds_guided=True)
        guided.step(2)
        guided.lose()
        guided.ready()
        await turns()
        answer = await guided.read(session)
        assert answer.text() == ""
        assert answer.problem.kind is ProblemKind.ENGINE_ERROR
        guided.assert_clean()

    asyncio.run(scene())


# --- resuming -------------------------------------------------------------------------------------


def test_guided_generation_goes_on_with_what_its_guide_leaves(guided: Stage) -> None:
    async def scene() -> None:
        session = await guided.submit(PROMPT, max_tokens=6, guide=WISH)
        guided.step(2)
        said = text_of(PROMPT, 2)
        guided.prep.may_resume.clear()
        guided.lose()
        replica = guided.ready()
        await turns()
        assert replica.adds == []  # it may not go on before its rest is known
        other = await guided.submit((4, 5))
        assert len(replica.adds) == 1  # and nobody waits for it
        guided.prep.may_resume.set()
        await turns()
        assert guided.prep.resumed == [said]
        assert replica.adds[1].params.guide == Guide(f"{GUIDE.ebnf} without {said}")
        answer = await guided.finish(session)
        assert answer.text() == text_of(PROMPT, 6)
        await guided.read(other)
        guided.assert_clean()

    asyncio.run(scene())


def test_each_further_loss_begins_from_the_first_guide_again(guided: Stage) -> None:
    async def scene() -> None:
        session = await guided.submit(PROMPT, max_tokens=6, guide=WISH)
        for count in (1, 3):
            guided.step(count - len(session.choices[0].journal.emitted))
            guided.lose()
            replica = guided.ready()
            await turns()
            expected = Guide(f"{GUIDE.ebnf} without {text_of(PROMPT, count)}")
            assert replica.adds[-1].params.guide == expected
        assert (await guided.finish(session)).text() == text_of(PROMPT, 6)

    asyncio.run(scene())


def test_guided_generation_lost_before_its_first_token_keeps_its_guide(guided: Stage) -> None:
    async def scene() -> None:
        session = await guided.submit(PROMPT, guide=WISH)
        guided.lose()
        replica = guided.ready()
        assert replica.adds[0].params.guide == GUIDE
        await guided.finish(session)
        assert guided.prep.resumed == []

    asyncio.run(scene())


def test_guided_generation_without_a_rest_ends_with_the_typed_error(guided: Stage) -> None:
    async def scene() -> None:
        guided.prep.hopeless = {text_of(PROMPT, 2)}
        session = await guided.submit(PROMPT, max_tokens=6, guide=WISH)
        guided.step(2)
        guided.lose()
        guided.ready()
        await turns()
        problem = (await guided.read(session)).problem
        assert problem.kind is ProblemKind.ENGINE_ERROR
        assert (problem.resumable, problem.tokens_emitted) == (False, 2)
        guided.assert_clean()

    asyncio.run(scene())


def test_client_that_leaves_while_the_rest_is_made_leaves_nothing(guided: Stage) -> None:
    async def scene() -> None:
        session = await guided.submit(PROMPT, max_tokens=6, guide=WISH)
        guided.step(2)
        guided.prep.may_resume.clear()
        guided.lose()
        await turns()
        session.cancel()
        guided.prep.may_resume.set()
        await turns()
        replica = guided.ready()
        await turns()
        assert replica.adds == []
        guided.assert_clean()

    asyncio.run(scene())


def test_suspected_guided_generation_is_tried_alone_once_its_rest_is_known(guided: Stage) -> None:
    async def scene() -> None:
        session = await guided.submit(PROMPT, max_tokens=6, guide=WISH)
        number = session.choices[0].journal.generation
        guided.step(2)
        guided.fault(number)
        assert guided.ready().adds == []
        await turns()
        guided.fault(number)
        replica = guided.ready()  # alone now, at the same place: what its guide leaves is known
        assert len(replica.adds) == 1
        assert guided.prep.resumed == [text_of(PROMPT, 2)]
        guided.step()
        guided.fault(number)
        replica = guided.ready()
        assert replica.adds == []  # at another place: that has to be found out again
        await turns()
        assert len(replica.adds) == 1
        assert (await guided.finish(session)).text() == text_of(PROMPT, 6)

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("ids", "seam"),
    [
        ((0, 0), Seam("aa", 0, "")),
        ((0, 1), Seam("a", 1, "")),
        ((0, 1, 2), Seam("aü", 0, "")),
        ((0, 3), Seam("aaa", 1, "aa")),
        ((0, 4, 2, 1), Seam("aü", 1, "")),
        ((0, 5, 6), Seam("a", 2, "")),
        ((0, 7, 6), Seam("aa", 2, "a")),
        ((1,), Seam("", 1, "")),
    ],
)
def test_seam_is_between_characters(ids: tuple[int, ...], seam: Seam) -> None:
    u, euro = "ü".encode(), "€".encode()
    words = [b"a", u[:1], u[1:], b"aa" + u[:1], u[:1], euro[:1], euro[1:2], b"a" + euro[:1]]
    table = TokenTable(b"".join(words), pack_ids([len(word) for word in words]), ())
    params = SamplingParams(max_tokens=9, guide=GUIDE)
    journal = Journal(1, "t", 0, [0], params, emitted=list(ids))
    assert seam_of(journal, Vocabulary.from_table(table)) == seam


@pytest.mark.parametrize("most", [9, 2])
def test_characters_that_went_out_are_spelt_by_other_ids(most: int) -> None:
    """Where there is room for these ids and one more."""
    words = [*(letter.encode() for letter in LETTERS), b"bc\xc3"]
    table = TokenTable(b"".join(words), pack_ids([len(word) for word in words]), ())
    params = SamplingParams(max_tokens=most, guide=GUIDE)
    journal = Journal(1, "t", 0, [0], params, emitted=[0, 26])
    done: list[str] = []
    choice: Any = SimpleNamespace(
        journal=journal,
        session=None,
        pipeline=SimpleNamespace(forget_partial=lambda: done.append("forgotten")),
    )

    def fail(*_: Any, **__: Any) -> None:
        done.append("failed")

    custody: Any = SimpleNamespace(fail=fail)
    vocabulary = Vocabulary.from_table(table)
    prep = AlphabetPrep()
    resumer = GuideResumer(prep, lambda: vocabulary, custody, lambda: done.append("done"))

    async def scene() -> None:
        resumer.attend(choice)
        await turns()
        resumer.check()

    asyncio.run(scene())
    if most == 9:
        assert done == ["forgotten", "done"]
        assert journal.emitted == [0, 1, 2]
        assert prep.resumed == ["abc"]
        assert not journal.needs_rest
    else:
        assert done == ["failed", "done"]


@pytest.mark.parametrize(("kind", "tries"), [("overloaded", 3), ("invalid_request", 1)])
def test_answer_whose_rest_cannot_be_made_goes_on_without_and_is_held_to_its_guide_at_its_end(
    guided: Stage, kind: str, tries: int
) -> None:
    async def scene() -> None:
        session = await gone_on_unguided(guided, kind=ProblemKind(kind))
        assert len(guided.prep.resumed) == tries
        assert guided.replica is not None
        assert guided.replica.adds[0].params.guide is None
        assert (await guided.finish(session)).text() == text_of(PROMPT, 6)
        assert guided.prep.checked == [(text_of(PROMPT, 6), False)]
        guided.assert_clean()

    asyncio.run(scene())


def test_answer_that_ended_by_itself_has_to_be_whole(guided: Stage) -> None:
    async def scene() -> None:
        prompt = (ENDS_AT, 3)
        session = await gone_on_unguided(guided, prompt, most=9, steps=1)
        assert (await guided.finish(session)).reasons() == {0: FinishReason.STOP}
        assert guided.prep.checked == [(text_of(prompt, 3), True)]

    asyncio.run(scene())


def test_answer_that_went_another_way_without_its_guide_ends_with_the_typed_error(
    guided: Stage,
) -> None:
    async def scene() -> None:
        guided.prep.is_right = False
        session = await gone_on_unguided(guided)
        guided.step(4)
        await turns()
        problem = (await guided.read(session)).problem
        assert problem.kind is ProblemKind.ENGINE_ERROR
        assert (problem.resumable, problem.tokens_emitted) == (False, 6)
        guided.assert_clean()

    asyncio.run(scene())


def test_answer_that_nobody_could_hold_to_its_guide_ends_with_the_typed_error(
    guided: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def busy(guide: Guide, text: str, *, is_whole: bool) -> bool:
        raise Problem(ProblemKind.OVERLOADED, "not now").raised()

    monkeypatch.setattr(guided.prep, "check_guide", busy)

    async def scene() -> None:
        session = await gone_on_unguided(guided)
        guided.step(4)
        await turns()
        assert (await guided.read(session)).problem.kind is ProblemKind.ENGINE_ERROR
        guided.assert_clean()

    asyncio.run(scene())


def test_answer_that_is_lost_again_has_its_guide_again_if_it_can(guided: Stage) -> None:
    async def scene() -> None:
        session = await gone_on_unguided(guided)
        guided.step(2)
        guided.prep.rest_problem = None
        guided.lose()
        replica = guided.ready()
        await turns()
        expected = Guide(f"{GUIDE.ebnf} without {text_of(PROMPT, 4)}")
        assert replica.adds[0].params.guide == expected
        await guided.finish(session)
        assert guided.prep.checked == [(text_of(PROMPT, 6), False)]

    asyncio.run(scene())


def test_client_that_leaves_while_its_answer_is_held_to_its_guide_leaves_nothing(
    guided: Stage,
) -> None:
    async def scene() -> None:
        guided.prep.may_check.clear()
        session = await gone_on_unguided(guided)
        guided.step(4)
        await turns()
        assert session.terminal is None
        session.cancel()
        gone = session.terminal
        guided.prep.may_check.set()
        await turns()
        guided.dispatch.sweep()  # raises what broke in between
        assert session.terminal is gone
        guided.assert_clean()

    asyncio.run(scene())


def test_guided_ones_are_stopped_last() -> None:
    running = [
        Running(1, "t"),
        Running(2, "t", is_sampled=True),
        Running(3, "t", is_sampled=True, is_guided=True),
    ]
    assert victim_of_shortage(running, Shares({"t": 3}, {})) == 2


def test_guided_answer_that_ends_by_itself_ends_with_stop(guided: Stage) -> None:
    async def scene() -> None:
        session = await guided.submit((ENDS_AT, 3), max_tokens=9, guide=WISH,
                                      include_stop_str_in_output=True)  # fmt: skip
        answer = await guided.finish(session)
        assert answer.reasons() == {0: FinishReason.STOP}
        assert answer.text() == text_of((ENDS_AT, 3), 3)  # and no control mark behind it

    asyncio.run(scene())


def test_resumer_that_breaks_is_heard_of(guided: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(guide: Guide, emitted: str) -> Guide:
        raise RuntimeError("a defect")

    monkeypatch.setattr(guided.prep, "resume_guide", broken)

    async def scene() -> None:
        await guided.submit(PROMPT, max_tokens=6, guide=WISH)
        guided.step(2)
        guided.lose()
        await turns()
        with pytest.raises(RuntimeError, match="a defect"):
            guided.dispatch.sweep()

    asyncio.run(scene())


def test_limits_are_those_of_everybody(stage_of: type[Stage]) -> None:
    """A generation whose rest is never told of is held no longer than others are."""
    limits = Limits(hold_timeout_s=5)
    stage = stage_of(capabilities=Capabilities(guided=True), limits=limits)
    stage.ready()

    async def scene() -> None:
        session = await stage.submit(PROMPT, max_tokens=6, guide=WISH)
        stage.step(2)
        stage.prep.may_resume.clear()
        stage.lose()
        stage.clock.pass_s(6)
        stage.dispatch.sweep()
        assert (await stage.read(session)).problem.kind is ProblemKind.MODEL_RECOVERING

    asyncio.run(scene())
