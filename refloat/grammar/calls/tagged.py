"""Calls whose arguments stand between tags: strings as bare text, all else as JSON."""

import json
from typing import Any, NamedTuple

from refloat.grammar.calls.leaves import Leaf, leaves, one_object
from refloat.grammar.calls.tool import Tool
from refloat.grammar.calls.untagged import cdata_text, text_without, without
from refloat.grammar.errors import GrammarError
from refloat.grammar.nodes import (
    EMPTY,
    NEVER,
    Literal,
    Node,
    Reference,
    choice,
    optional,
    repeat,
    sequence,
)
from refloat.grammar.schema.keywords import Path
from refloat.grammar.schema.strings import ANY, text_node
from refloat.grammar.schema.values import listed_values
from refloat.parsing.declared import DeclaredTools, typed_json

#: In JSON a tag can be written without its first character.
IN_JSON = {"<": "\\u003c"}
TEXT = Reference("call_text")


class TagForm(NamedTuple):
    """How one family writes an argument."""

    key_open: str
    key_close: str
    """From the key to the value."""
    value_close: str
    behind: str
    """Behind each argument."""
    ends: tuple[str, ...]
    """Tags that end a value."""
    cdata: bool = False


def text_rule(form: TagForm) -> Node:
    """Any text as a value, for the rule that `TEXT` refers to."""
    if not form.cdata:
        return text_without(form.ends)
    wrapped = sequence(Literal("<![CDATA["), cdata_text(), Literal("]]>"))
    return choice(without(repeat(ANY), "<&\n"), wrapped)


def tagged_arguments(tool: Tool, form: TagForm) -> Node:
    """All arguments of a tool, in the order of its schema. Raises `GrammarError`."""
    properties, required, path = one_object(tool.builder)
    blocks: list[Node] = []
    for name, schema in properties.items():
        _check_key(name, form, (*path, name))
        value = _value(tool, form, name, schema, (*path, name))
        if value == NEVER:
            if name in required:
                raise GrammarError("there is no value for it", (*path, name))
            continue
        opening = Literal(form.key_open + name + form.key_close)
        block = sequence(opening, value, Literal(form.value_close + form.behind))
        blocks.append(block if name in required else optional(block))
    return sequence(*blocks)


def _check_key(name: str, form: TagForm, path: Path) -> None:
    if not name or name != name.strip() or any(char in name for char in '<>"\n') or len(name) > 200:
        raise GrammarError("a name that cannot stand between tags", path)


def _value(tool: Tool, form: TagForm, name: str, schema: Any, path: Path) -> Node:
    types = DeclaredTools([tool.declared]).types_of(tool.name, name)
    found = leaves(tool.builder, schema, path)
    is_clear = all(leaf.is_bare for leaf in found if leaf.kind not in ("string", "listed"))
    options: list[Node] = []
    for leaf in found:
        if leaf.kind == "listed":
            options += _listed(tool, leaf, types)
        elif leaf.kind == "any":
            options.append(_text(leaf, form))
        elif leaf.kind != "string":
            node = tool.builder.node(leaf.schema, leaf.path)
            options.append(without(node, "<", IN_JSON))
        elif is_clear:
            # Text that looks like another type's is read as that, which has to be right, too.
            options.append(_text(leaf, form))
    return choice(*options)


def _listed(tool: Tool, leaf: Leaf, types: frozenset[str]) -> list[Node]:
    """Values by name, as far as their text is read as them again."""
    options: list[Node] = []
    for value in listed_values(tool.builder, leaf.schema, leaf.path):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if "<" not in text and json.loads(typed_json(text, types)) == value:
            options.append(Literal(text) if text else EMPTY)
    if not options:
        raise GrammarError("none of the values can be written in this format of calls", leaf.path)
    return options


def _text(leaf: Leaf, form: TagForm) -> Node:
    node = repeat(ANY) if leaf.kind == "any" else text_node(leaf.schema, leaf.path)
    return TEXT if node == repeat(ANY) else without(node, "<&\n" if form.cdata else "<")
