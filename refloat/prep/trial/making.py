"""From a caller's wish for the form of an answer to its grammar. No engine, no limits of time here."""

import json
from typing import Any, assert_never, cast

from refloat.grammar.ebnf import from_ebnf
from refloat.grammar.errors import GrammarError
from refloat.grammar.grammar import Grammar
from refloat.grammar.json_schema import any_json, any_json_object, from_json_schema
from refloat.grammar.limits import check_grammar
from refloat.grammar.nodes import Literal, choice
from refloat.grammar.regex import from_regex
from refloat.grammar.residual import residual
from refloat.grammar.tool_calls import text_or_calls, tool_calls
from refloat.prep.trial.either import either
from refloat.prep.trial.reasoning import after_reasoning
from refloat.wire.guide import Guide, GuideKind, GuideRequest

#: Texts of which an answer may have to be one.
MAX_CHOICES = 1024


def ebnf_of(wish: GuideRequest) -> str:
    """The grammar as text for the engine. Raises `GrammarError`."""
    grammar = _grammar_of(wish)
    if wish.tools:
        grammar = either(grammar, _calls(wish, wish.tools))
    check_grammar(grammar)
    if wish.reasoning is not None:
        grammar = after_reasoning(grammar, wish.reasoning)
    return grammar.to_ebnf()


def rest_of(guide: Guide, emitted: str) -> str | None:
    """The guide of what may follow a text; `None`: it is no beginning of what the guide allows.
    Raises `GrammarError`."""
    left = residual(from_ebnf(guide.ebnf), emitted)
    if left is None:
        return None
    check_grammar(left)
    return left.to_ebnf()


def _grammar_of(wish: GuideRequest) -> Grammar:
    match wish.kind:
        case GuideKind.JSON:
            return any_json()
        case GuideKind.JSON_OBJECT:
            return any_json_object()
        case GuideKind.JSON_SCHEMA:
            return from_json_schema(_json(wish.text))
        case GuideKind.REGEX:
            return from_regex(wish.text)
        case GuideKind.GRAMMAR:
            return from_ebnf(wish.text)
        case GuideKind.CHOICE:
            return _one_of(_json(wish.text))
        case GuideKind.CALLS:
            return _calls(wish, wish.text)
        case GuideKind.TEXT_OR_CALLS:
            return text_or_calls(_family(wish), _json(wish.text), single=wish.single)
        case _:
            assert_never(wish.kind)


def _calls(wish: GuideRequest, tools: str) -> Grammar:
    return tool_calls(_family(wish), _json(tools), named=wish.named, single=wish.single)


def _family(wish: GuideRequest) -> str:
    if wish.family is None:
        raise GrammarError("this model's format of calls is not known")
    return wish.family


def _one_of(texts: Any) -> Grammar:
    if not isinstance(texts, list) or not texts:
        raise GrammarError("it has to be a list of texts, one at least")
    texts = cast("list[Any]", texts)
    if len(texts) > MAX_CHOICES:
        raise GrammarError(f"it may have {MAX_CHOICES} texts at most")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise GrammarError("it has to be a text", [index])
    return Grammar({"root": choice(*map(Literal, texts))})


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise GrammarError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise GrammarError("it is nested too deeply") from None
