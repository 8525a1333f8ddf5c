"""One declared tool on its way into a grammar."""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from refloat.grammar.nodes import Node
from refloat.grammar.schema.builder import SchemaBuilder


class Tool(NamedTuple):
    """A function that may be called."""

    name: str
    declared: Mapping[str, Any]
    """As the request has it, in OpenAI's shape."""
    builder: SchemaBuilder
    """Of its parameters' schema."""

    def arguments(self) -> Node:
        """All arguments as one JSON object. Raises `GrammarError`."""
        root = self.builder.root
        if isinstance(root, Mapping) and cast("Mapping[str, Any]", root).get("type") == "object":
            return self.builder.node(root, ())
        return self.builder.node({"allOf": [{"$ref": "#"}, {"type": "object"}]}, ())
