"""The Jinja environment in which chat templates run: Hugging Face's functions, sandboxed, bounded.

Templates come from whoever published the model. They may loop, fail and eat memory; they may not
reach anything but what they are given.
"""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import Environment, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

#: Largest number a template may compute, in bits: far beyond any use, and quick to reach an end.
_MAX_BITS = 4096
#: Longest sequence that `*` may make.
_MAX_REPEATED = 1_000_000


class TemplateRefusalError(TemplateError):
    """The template itself refused the conversation (`raise_exception`)."""


class GenerationTag(Extension):
    """`{% generation %}` marks what the assistant said, for training; here it is just its body."""

    tags = {"generation"}  # noqa: RUF012 # declared so by jinja2

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("_body")
        return nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox, with a bound on the two operators that make much out of little."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuses what would be too large; raises `TemplateError`."""
        if operator == "**":
            if _bits(left) * abs(_whole(right)) > _MAX_BITS:
                raise TemplateError("a power in the template is too large")
        elif _repeats(left, right) or _repeats(right, left):
            raise TemplateError("a repetition in the template is too long")
        elif _bits(left) + _bits(right) > _MAX_BITS:
            raise TemplateError("a product in the template is too large")
        return super().call_binop(context, operator, left, right)


def chat_environment() -> Environment:
    """A fresh environment, as `transformers` sets up its own."""
    environment = ChatEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception  # pyright: ignore[reportArgumentType]
    environment.globals["strftime_now"] = _strftime_now  # pyright: ignore[reportArgumentType]
    return environment


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as models were trained on it: no HTML escapes, characters as they are."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: object) -> NoReturn:
    raise TemplateRefusalError(str(message))


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _bits(value: Any) -> int:
    return _whole(value).bit_length()


def _repeats(sequence: Any, times: Any) -> bool:
    return (
        isinstance(sequence, Sequence)
        and isinstance(times, int)
        and len(sequence) * times > _MAX_REPEATED  # pyright: ignore[reportUnknownArgumentType]
    )
