"""Tool calls as grammars, in the very text that a family's template writes and its parser reads."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from refloat.grammar.calls import gemma
from refloat.grammar.calls.forms import FORMS, CallForm
from refloat.grammar.calls.tool import Tool
from refloat.grammar.errors import GrammarError
from refloat.grammar.grammar import ROOT, Grammar
from refloat.grammar.json_text import RULES
from refloat.grammar.limits import check_schema
from refloat.grammar.nodes import EMPTY, Node, choice, repeat, sequence
from refloat.grammar.pruning import pruned
from refloat.grammar.schema.builder import SchemaBuilder

MOST_CALLS = 32
"""In one answer."""
_NAME = re.compile(r"[A-Za-z0-9_.\-/]{1,128}")
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
    form = FORMS.get(family)
    if form is None:
        raise GrammarError(f"calls cannot be enforced in the format {family}")
    rules: dict[str, Node] = {}
    calls: list[Node] = []
    for number, declared in enumerate(tools):
        function = _mapping(declared.get("function"))
        if named is None or function.get("name") == named:
            try:
                calls.append(_call(form, declared, f"tool{number}_", rules))
            except GrammarError as error:
                path = (number, "function", "parameters", *error.path)
                raise GrammarError(error.message, path) from None
    if not calls:
        raise GrammarError("there is no such tool" if named else "there are no tools")
    json_rules = {name: _adapted(form, node) for name, node in RULES.items()}
    root = _whole(form, choice(*calls), single=single or form.is_single)
    rules = {**json_rules, **gemma.RULES, **rules, ROOT: root}
    return Grammar(pruned(rules, ROOT))


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


def _adapted(form: CallForm, node: Node) -> Node:
    return node if form.dialect is None else form.dialect(node)


def _whole(form: CallForm, call: Node, *, single: bool) -> Node:
    more = EMPTY if single else repeat(sequence(form.between, call), 0, MOST_CALLS - 1)
    return sequence(form.before, call, more, form.behind)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
