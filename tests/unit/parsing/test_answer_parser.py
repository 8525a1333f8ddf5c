"""Reasoning and calls of one answer together, and control marks that are seen but never shown."""

from array import array
from itertools import accumulate
from typing import Any, get_args

import pytest

from refloat.config.parsers import ReasoningParser, ToolParser
from refloat.parsing.answer import Format, Veil, new_call_id
from refloat.parsing.declared import DeclaredTools
from refloat.parsing.families import NONE, REASONING_FAMILIES, TOOL_FAMILIES
from refloat.parsing.parts import CallBegin, Content, Parser, Reasoning
from refloat.parsing.pipeline import OutputPipeline
from refloat.parsing.vocabulary import Vocabulary

KIMI = [
    *("<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>"),
    *("<|tool_call_end|>", "<|tool_calls_section_end|>", "<|im_end|>"),
]
WORDS = [*KIMI, "functions.ping:0", "{}", "Hi ", "<think>", "hm", "</think>", "functions.no:1"]


def _vocabulary(words: list[str] = WORDS, special: int = len(KIMI)) -> Vocabulary:
    bounds = array("q", accumulate((len(word.encode()) for word in words), initial=0))
    blob = "".join(words).encode()
    ids = frozenset(range(special))
    return Vocabulary(blob, bounds, ids, strip_leading_space=False, exact=True)


def _run(parser: Parser, form: Format, vocabulary: Vocabulary, *words: str) -> Any:
    marks = vocabulary.special_among(form.marks(with_tools=True))
    pipeline = OutputPipeline(vocabulary.showing(marks))
    parts = [
        part for word in words for part in parser.push(pipeline.push([WORDS.index(word)]).text)
    ]
    return [*parts, *parser.push(pipeline.flush().text), *parser.finish(cut=False)]


def _parser(form: Format, vocabulary: Vocabulary, tools: Any, **more: Any) -> Parser:
    parser = form.parser(DeclaredTools(tools), vocabulary, **more)
    assert parser is not None
    return parser


def test_reasoning_and_calls_between_control_marks_are_told_apart(bench: Any) -> None:
    form, vocabulary = Format("kimi_k2", "kimi_k2"), _vocabulary()
    parser = _parser(form, vocabulary, bench.tools)
    said = ["<think>", "hm", "</think>", "Hi ", KIMI[0], KIMI[1], "functions.ping:0", KIMI[2], "{}"]
    found = bench.fold(_run(parser, form, vocabulary, *said, KIMI[3], KIMI[4], KIMI[5]))
    assert (found.reasoning, found.content, found.calls) == ("hm", "Hi", [("ping", "{}")])


def test_control_marks_that_mean_nothing_are_not_shown(bench: Any) -> None:
    form, vocabulary = Format("kimi_k2", "kimi_k2"), _vocabulary()
    parser = _parser(form, vocabulary, bench.tools)
    said = ["Hi ", KIMI[4], KIMI[1], "functions.no:1", KIMI[2], "{}", KIMI[3], KIMI[5]]
    found = bench.fold(_run(parser, form, vocabulary, *said))
    assert found.content == "Hi functions.no:1{}"


def test_mark_does_not_go_on_across_a_call_or_into_other_text() -> None:
    call = CallBegin(0, "a", "f")
    veil = Veil(("<mark>",))
    assert veil.push([Content("a<ma"), call]) == [Content("a"), Content("<ma"), call]
    assert veil.push([Content("rk>b<mark>c<")]) == [Content("rk>bc")]
    assert veil.push([Reasoning("mark>")]) == [Content("<"), Reasoning("mark>")]
    assert veil.flush() == []


def test_view_of_a_vocabulary_shows_only_what_was_asked_for() -> None:
    vocabulary = _vocabulary()
    marks = vocabulary.special_among((KIMI[0], "<think>", "nowhere"))
    assert marks == {KIMI[0]}
    view = vocabulary.showing(marks)
    assert view is vocabulary.showing(marks)
    assert vocabulary.text_of(0) == ""
    assert (view.text_of(0), view.text_of(1)) == (KIMI[0], "")
    assert vocabulary.showing(frozenset()) is vocabulary


def test_nothing_to_parse_is_no_parser(bench: Any) -> None:
    vocabulary, tools = _vocabulary(), DeclaredTools(bench.tools)
    assert Format(None, None).parser(tools, vocabulary) is None
    assert Format("hermes", None).parser(None, vocabulary) is None
    assert Format("gpt_oss", None).parser(None, vocabulary) is None


def test_prompt_that_opens_the_reasoning_is_noticed(bench: Any) -> None:
    form, vocabulary = Format("hermes", "think"), _vocabulary()
    for tail, reasoning in (("assistant\n<think>\n", "a"), ("assistant\n", "")):
        parser = _parser(form, vocabulary, bench.tools, prompt_tail=tail)
        found = bench.fold([*parser.push("a</think>b"), *parser.finish(cut=False)])
        assert found.reasoning == reasoning


def test_name_that_is_no_family_is_an_error() -> None:
    with pytest.raises(KeyError):
        Format("nobody", None)


def test_settings_name_exactly_the_families() -> None:
    assert set(get_args(ToolParser)) == {NONE, *TOOL_FAMILIES}
    assert set(get_args(ReasoningParser)) == {NONE, *REASONING_FAMILIES}


def test_ids_are_unlike_and_as_long_as_templates_want() -> None:
    assert len({new_call_id(9) for _ in range(500)}) == 500
    assert all(len(new_call_id(9)) == 9 and new_call_id(9).isalnum() for _ in range(20))
    assert new_call_id(24).startswith("call_")
