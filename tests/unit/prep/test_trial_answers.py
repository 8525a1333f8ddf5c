"""What a wish for an answer's form becomes, and what is said of one that becomes nothing."""

import json
from typing import Any

import pytest

from refloat.grammar.ebnf import from_ebnf
from refloat.grammar.grammar import Grammar
from refloat.grammar.nodes import Literal
from refloat.grammar.residual import matches
from refloat.prep.trial import program
from refloat.prep.trial.error import CompileError
from refloat.prep.trial.messages import Compile
from refloat.prep.trial.program import answer, tried
from refloat.prep.trial.reasoning import after_reasoning
from refloat.wire.guide import Guide, GuideKind, GuideRequest, ReasoningSpan
from refloat.wire.prep_messages import CheckGuide, Guided, MakeGuide, PrepRefused, ResumeGuide
from refloat.wire.problem import Problem, ProblemKind

K = GuideKind
SCHEMA = json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})


def made(kind: GuideKind, text: str = "", **more: Any) -> Grammar:
    told = answer(MakeGuide(7, GuideRequest(kind, text, "field", **more)))
    assert isinstance(told, Guided), told
    assert told.job == 7
    assert told.guide is not None
    return from_ebnf(told.guide.ebnf)


def problem(kind: GuideKind, text: str = "") -> Problem:
    told = answer(MakeGuide(7, GuideRequest(kind, text, "field")))
    assert isinstance(told, PrepRefused), told
    return told.problem


@pytest.mark.parametrize(
    ("kind", "text", "good", "bad"),
    [
        (K.JSON, "", '[1, {"a": null}]', "x"),
        (K.JSON_OBJECT, "", '{"a": 1}', "[1]"),
        (K.JSON_SCHEMA, SCHEMA, '{"a": 12}', '{"a": "x"}'),
        (K.REGEX, "[a-c]{2}", "ab", "abc"),
        (K.GRAMMAR, 'root ::= "x" root | "y"', "xxy", "x"),
        (K.CHOICE, '["yes", "no"]', "no", "maybe"),
    ],
)
def test_wish_becomes_a_grammar_of_it(kind: GuideKind, text: str, good: str, bad: str) -> None:
    grammar = made(kind, text)
    assert matches(grammar, good)
    assert not matches(grammar, bad)


@pytest.mark.parametrize(
    ("kind", "text", "param"),
    [
        (K.JSON_SCHEMA, '{"properties": {"a": {"type": "x"}}}', "field.properties.a.type"),
        (K.JSON_SCHEMA, "{", "field"),
        (K.JSON_SCHEMA, "[" * 100_000, "field"),
        (K.REGEX, "(?<=a)b", "field"),
        (K.REGEX, "(" * 8_000, "field"),
        (K.GRAMMAR, 'start ::= "a"', "field"),
        (K.CHOICE, "[]", "field"),
        (K.CHOICE, '["a", 5]', "field.1"),
        (K.CHOICE, json.dumps(["a"] * 5000), "field"),
    ],
)
def test_wish_that_is_wrong_is_refused_by_its_field(kind: GuideKind, text: str, param: str) -> None:
    found = problem(kind, text)
    assert (found.kind, found.param) == (ProblemKind.INVALID_REQUEST, param)
    assert found.message.startswith(param)


TOOLS = json.dumps(
    [
        {"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}},
        {"type": "function", "function": {"name": "b", "parameters": {"properties": {"x": 5}}}},
    ]
)


def test_wish_for_a_call_becomes_a_grammar_of_the_familys_text() -> None:
    grammar = made(K.CALLS, TOOLS, family="hermes", named="a", single=True)
    call = '<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>'
    assert matches(grammar, call)
    assert not matches(grammar, call + "\n" + call)


def test_tools_may_be_called_in_place_of_the_form() -> None:
    tools = json.dumps(json.loads(TOOLS)[:1])
    grammar = made(K.JSON_SCHEMA, SCHEMA, tools=tools, family="hermes")
    assert matches(grammar, '{"a": 12}')
    assert matches(grammar, '<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>')
    assert not matches(grammar, '<tool_call>\n{"name": "b", "arguments": {}}\n</tool_call>')
    assert not matches(grammar, '{"a": "12"}')


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"family": "hermes"}, "tools[1].function.parameters.properties.x"),
        ({"family": None}, "tool_choice"),
        ({"family": "unheard of"}, "tool_choice"),
    ],
)
def test_call_that_cannot_be_enforced_is_refused_by_its_field(
    more: dict[str, Any], param: str
) -> None:
    wish = GuideRequest(K.CALLS, TOOLS, "tool_choice", **more)
    told = answer(MakeGuide(1, wish))
    assert isinstance(told, PrepRefused)
    assert told.problem.param == param


def test_what_the_compiler_took_is_told() -> None:
    assert tried(Compile(3, "root ::= x"), lambda ebnf: len(ebnf) / 4).took_s == 2.5


def test_compilers_words_are_told_without_the_paths_of_its_build() -> None:
    def compile_(ebnf: str) -> float:
        raise CompileError("[22:32:52] /home/j/a/cpp/grammar_parser.cc:12: EBNF: it is odd")

    assert tried(Compile(3, "x"), compile_).refusal == "EBNF: it is odd"


def test_defect_is_nobodys_fault_but_the_servers(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(wish: GuideRequest) -> str:
        raise KeyError(wish.text)

    monkeypatch.setattr(program, "ebnf_of", defect)
    assert problem(K.CHOICE, '["secret"]').kind is ProblemKind.INTERNAL_ERROR
    said = capfd.readouterr().err
    assert "KeyError" in said
    assert "secret" not in said


def test_memory_that_is_not_there_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def large(*_: object) -> float:
        raise MemoryError

    assert tried(Compile(3, "x"), large).refusal
    monkeypatch.setattr(program, "ebnf_of", large)
    assert problem(K.JSON).kind is ProblemKind.INVALID_REQUEST


def test_grammar_that_became_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MAX_EBNF_CHARS", 10)
    assert problem(K.JSON).kind is ProblemKind.INVALID_REQUEST


def test_rest_is_what_the_guide_leaves() -> None:
    guide = Guide('root ::= "yes" | "yellow"')
    told = answer(ResumeGuide(3, guide, "ye"))
    assert isinstance(told, Guided)
    assert told.guide is not None
    assert matches(from_ebnf(told.guide.ebnf), "llow")
    assert answer(ResumeGuide(3, guide, "yx")) == Guided(3, None)


@pytest.mark.parametrize(
    ("text", "is_whole", "is_right"),
    [("yes", True, True), ("ye", True, False), ("ye", False, True), ("yx", False, False)],
)
def test_text_is_held_to_its_guide(text: str, is_whole: bool, is_right: bool) -> None:
    guide = Guide('root ::= "yes" | "yellow"')
    told = answer(CheckGuide(3, guide, text, is_whole))
    assert told == Guided(3, guide if is_right else None)


@pytest.mark.parametrize(
    ("text", "is_open", "fits"),
    [
        ("yes", False, True),
        ("yes", True, False),
        ("<think>a < b</thin or </think>\n\nyes", False, True),
        ("a </</think></think>yes", True, False),
        ("a <<//</think>yes", True, True),
        ("<think>never closed", False, False),
        ("<think></think>no", False, False),
    ],
)
def test_reasoning_may_stand_before_the_form(text: str, is_open: bool, fits: bool) -> None:
    span = ReasoningSpan("<think>", "</think>", is_open=is_open)
    plain = Grammar({"root": Literal("yes")})
    assert matches(after_reasoning(plain, span), text) is fits
    assert matches(made(K.CHOICE, '["yes"]', reasoning=span), text) is fits
