"""What an answer is made of, once it was parsed: text, reasoning and calls, as they come. Pure data."""

from collections.abc import Iterable
from typing import Protocol

import msgspec


class Content(msgspec.Struct, frozen=True, gc=False):
    """Text of the answer proper."""

    text: str


class Reasoning(msgspec.Struct, frozen=True, gc=False):
    """Text that the model thought."""

    text: str


class CallBegin(msgspec.Struct, frozen=True, gc=False):
    """A call to a declared tool."""

    call: int
    """Counted from 0 within one answer."""
    id: str
    name: str


class CallArguments(msgspec.Struct, frozen=True, gc=False):
    """More of a call's arguments: JSON text, never taken back."""

    call: int
    text: str


class CallEnd(msgspec.Struct, frozen=True, gc=False):
    """A call is complete. A call that the token limit cut has no end."""

    call: int


Part = Content | Reasoning | CallBegin | CallArguments | CallEnd


class Parser(Protocol):
    """Text in pieces to parts. What comes out depends on the text alone, never on how it was cut."""

    def push(self, text: str) -> list[Part]:
        """Take more text; what is certain by now comes out."""
        ...

    def finish(self, *, cut: bool) -> list[Part]:
        """No more text comes; `cut`: a limit ended it, not the model. Called once."""
        ...

    @property
    def is_done(self) -> bool:
        """Nothing that may follow is wanted."""
        ...


def merged(parts: Iterable[Part]) -> list[Part]:
    """Neighbours that only differ in how the text was cut made into one; empty ones left out."""
    result: list[Part] = []
    for part in parts:
        if isinstance(part, CallBegin | CallEnd):
            result.append(part)
            continue
        if not part.text:
            continue
        last = result[-1] if result else None
        joined = None if last is None else _joined(last, part)
        if joined is None:
            result.append(part)
        else:
            result[-1] = joined
    return result


def _joined(first: Part, second: Part) -> Part | None:
    match first, second:
        case Content(a), Content(b):
            return Content(a + b)
        case Reasoning(a), Reasoning(b):
            return Reasoning(a + b)
        case CallArguments(i, a), CallArguments(j, b) if i == j:
            return CallArguments(i, a + b)
        case _:
            return None
