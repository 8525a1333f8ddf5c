"""Goes through a schema and gives each keyword to its file; makes rules of what is referred to."""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from refloat.grammar import json_text
from refloat.grammar.errors import GrammarError
from refloat.grammar.nodes import NEVER, Node, Reference, choice
from refloat.grammar.schema import arrays, numbers, objects, strings, values
from refloat.grammar.schema.keywords import Path, asserts, refuse_unsupported, types_of
from refloat.grammar.schema.merging import alternatives
from refloat.grammar.schema.pointers import target_of

Schema = Mapping[str, Any]
_MOST_DEPTH = 100


class SchemaBuilder:
    """One schema's way into rules."""

    def __init__(self, root: Any, prefix: str = "") -> None:
        """`prefix` keeps the names of several schemas' rules apart."""
        self.root = root
        self._prefix = prefix
        self._depth = 0
        self._named: dict[str, str] = {}
        """Rules of what is referred to, by pointer or by text."""
        self._waiting: list[tuple[str, Any, Path]] = []
        self.rules: dict[str, Node] = {}
        self._kinds: dict[str, Callable[[Schema, Path], Node]] = {
            "object": lambda schema, path: objects.object_node(self, schema, path),
            "array": lambda schema, path: arrays.array_node(self, schema, path),
            "string": lambda schema, path: strings.string_node(self, schema, path),
            "integer": numbers.integer_node,
            "number": numbers.number_node,
            "boolean": lambda _schema, _path: json_text.BOOLEAN,
            "null": lambda _schema, _path: json_text.NULL,
        }

    def build(self) -> Node:
        """The node of the whole schema; all its rules are there. Raises `GrammarError`."""
        node = self.node(self.root, ())
        self.settle()
        return node

    def settle(self) -> None:
        """Make the rules of all that was referred to."""
        while self._waiting:
            name, schema, path = self._waiting.pop()
            self.rules[name] = self.node(schema, path)

    def node(self, schema: Any, path: Path) -> Node:
        """What a schema allows. Raises `GrammarError`."""
        if self._depth > _MOST_DEPTH:
            raise GrammarError("nested too deep, or put together with itself without end", path)
        self._depth += 1
        try:
            return self._node(schema, path)
        finally:
            self._depth -= 1

    def new_rule(self) -> Reference:
        """A rule that is made later."""
        name = f"{self._prefix}part{len(self.rules) + 1}"
        self.rules[name] = NEVER
        return Reference(name)

    def add_rule(self, node: Node) -> Node:
        """A rule of its own for something that is mentioned more than once."""
        rule = self.new_rule()
        self.rules[rule.name] = node
        return rule

    def _node(self, schema: Any, path: Path) -> Node:
        if schema is True:
            return json_text.VALUE
        if schema is False:
            return NEVER
        if not isinstance(schema, Mapping):
            raise GrammarError("a schema is an object, true or false", path)
        schema = cast("Schema", schema)
        refuse_unsupported(schema, path)
        if "not" in schema:  # of anything at all: other ones are refused
            return NEVER
        if "$ref" in schema and not asserts(schema, but=("$ref",)):
            return self._referred(schema["$ref"], (*path, "$ref"))
        options = alternatives(schema, path, self.root)
        if options is not None:
            return self._of_options(options)
        if "const" in schema or "enum" in schema:
            return values.listed_node(self, schema, path)
        types = types_of(schema, path)
        if not types:
            return json_text.VALUE
        return choice(*(self._kinds[name](schema, path) for name in types))

    def _of_options(self, options: list[tuple[Any, Path]]) -> Node:
        if len(options) > 1:
            return choice(*(self.node(*option) for option in options))
        # Put together: what it refers to may lead to the same again, so it is a rule by its text.
        schema, path = options[0]
        if isinstance(schema, bool):
            return self.node(schema, path)
        return self._named_rule(json.dumps(schema), schema, path)

    def _referred(self, pointer: Any, path: Path) -> Node:
        if not isinstance(pointer, str):
            raise GrammarError("a reference is text", path)
        if pointer in self._named:
            return Reference(self._named[pointer])
        return self._named_rule(pointer, *target_of(self.root, pointer, path))

    def _named_rule(self, key: str, schema: Any, path: Path) -> Node:
        name = self._named.get(key)
        if name is None:
            name = self._named[key] = f"{self._prefix}ref{len(self._named) + 1}"
            self.rules[name] = NEVER
            self._waiting.append((name, schema, path))
        return Reference(name)
