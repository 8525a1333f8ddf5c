"""Tool calls as grammars, in the very text that a family's template writes and its parser reads."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from refloat.grammar.calls import gemma
from refloat.grammar.calls.forms import FORMS, CallForm
from refloat.grammar.calls.tagged import TEXT
from refloat.grammar.calls.tool import Tool
from refloat.grammar.calls.untagged import text_without
from refloat.grammar.errors import GrammarError
from refloat.grammar.grammar import ROOT, Grammar
from refloat.grammar.json_text import RULES
from refloat.grammar.limits import check_schema
from refloat.grammar.nodes import (
    EMPTY,
    NEVER,
    Node,
    Reference,
    all_but,
    choice,
    optional,
    repeat,
    sequence,
)
from refloat.grammar.pruning import pruned
from refloat.grammar.schema.builder import SchemaBuilder
from refloat.parsing.tags import BLANKS

MOST_CALLS = 32
"""In one answer."""
_NAME = re.compile(r"[A-Za-z0-9_.\-/]{1,128}")
_CALL = Reference("any_call")
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def tool_calls(
    family: str,
    tools: Iterable[Mapping[str, Any]],
    *,
    named: str | None = None,
    single: bool = False,
) -> Grammar:
    """One or more calls of declared tools (`single`: one; `named`: of this function), and nothing else.

    `tools` are in OpenAI's shape; paths of errors begin with a tool's number in them. Raises
    `GrammarError` for a family or a schema of which no grammar is known.
    """
    form = _form(family)
    rules, call = _calls(form, tools, named)
    return _grammar({**rules, ROOT: _whole(form, call, single=single)})


def text_or_calls(
    family: str, tools: Iterable[Mapping[str, Any]], *, single: bool = False
) -> Grammar:
    """Any text, and behind it calls or none: what looks like a call is one that was declared.

    A schema that cannot be held is an error for a tool that is `strict`; of others the names of their
    arguments are held then. Raises as `tool_calls` does.
    """
    form = _form(family)
    rules, call = _calls(form, tools, None, is_lenient=True)
    calls = _whole(form, call, single=single)
    if form.answer != NEVER:
        return _grammar({**rules, ROOT: choice(form.answer, calls)})
    text = text_without(form.opens)
    if not form.bare:
        return _grammar({**rules, ROOT: sequence(text, optional(calls))})
    begin = all_but((ord(char), ord(char)) for char in (*form.bare, "<", *BLANKS))
    return _grammar({**rules, ROOT: choice(calls, optional(sequence(begin, text)))})


def _form(family: str) -> CallForm:
    form = FORMS.get(family)
    if form is None:
        raise GrammarError(f"calls cannot be enforced in the format {family}")
    return form


def _calls(
    form: CallForm,
    tools: Iterable[Mapping[str, Any]],
    named: str | None,
    *,
    is_lenient: bool = False,
) -> tuple[dict[str, Node], Node]:
    """Rules, and one call of any of the tools."""
    rules = {name: _adapted(form, node) for name, node in RULES.items()}
    rules |= {**gemma.RULES, TEXT.name: form.text}
    calls: list[Node] = []
    for number, declared in enumerate(tools):
        function = _mapping(declared.get("function"))
        if named is None or function.get("name") == named:
            may_loosen = is_lenient and function.get("strict") is not True
            try:
                calls.append(_call_of(form, declared, number, rules, may_loosen=may_loosen))
            except GrammarError as error:
                path = (number, "function", "parameters", *error.path)
                raise GrammarError(error.message, path) from None
    if not calls:
        raise GrammarError("there is no such tool" if named else "there are no tools")
    rules[_CALL.name] = choice(*calls)
    return rules, _CALL


def _grammar(rules: dict[str, Node]) -> Grammar:
    return Grammar(pruned(rules, ROOT))


def _call_of(
    form: CallForm,
    declared: Mapping[str, Any],
    number: int,
    rules: dict[str, Node],
    *,
    may_loosen: bool,
) -> Node:
    prefix = f"tool{number}_"
    try:
        return _call(form, declared, prefix, rules)
    except GrammarError:
        if not may_loosen:
            raise
    return _call(form, _loosened(declared), prefix, rules)


def _call(form: CallForm, declared: Mapping[str, Any], prefix: str, rules: dict[str, Node]) -> Node:
    function = _mapping(declared.get("function"))
    name = str(function.get("name"))
    if not _NAME.fullmatch(name):
        raise GrammarError("the tool's name cannot be written in this model's format of calls")
    schema = function.get("parameters")
    schema = _NO_PARAMETERS if schema in (None, {}) else schema
    check_schema(schema)
    builder = SchemaBuilder(schema, prefix)
    node = form.call(Tool(name, declared, builder))
    builder.settle()
    rules |= {rule: _adapted(form, body) for rule, body in builder.rules.items()}
    return node


def _loosened(declared: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tool whose arguments may be anything."""
    function = _mapping(declared.get("function"))
    names = _mapping(_mapping(function.get("parameters")).get("properties"))
    parameters: dict[str, Any] = {"type": "object"}
    if names:
        parameters["properties"] = dict.fromkeys(names, True)
    return {**declared, "function": {**function, "parameters": parameters}}


def _adapted(form: CallForm, node: Node) -> Node:
    return node if form.dialect is None else form.dialect(node)


def _whole(form: CallForm, call: Node, *, single: bool) -> Node:
    more = (
        EMPTY
        if single or form.is_single
        else repeat(sequence(form.between, call), 0, MOST_CALLS - 1)
    )
    return sequence(form.before, call, more, form.behind)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
