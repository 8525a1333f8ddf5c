"""The calls of one answer while it is parsed: their numbers, ids and parts. Knows no format."""

from collections.abc import Callable

from refloat.parsing.declared import DeclaredTools
from refloat.parsing.parts import CallArguments, CallBegin, CallEnd, Content, Part, Reasoning


class Calls:
    """Collects parts in order. At most one call is open."""

    __slots__ = ("_count", "_has_arguments", "_is_open", "_new_id", "_parts", "_single", "tools")

    def __init__(
        self, tools: DeclaredTools, new_id: Callable[[], str], *, single: bool = False
    ) -> None:
        """`single`: nothing is wanted once one call is complete."""
        self.tools = tools
        self._new_id = new_id
        self._single = single
        self._parts: list[Part] = []
        self._count = 0
        self._is_open = False
        self._has_arguments = False

    @property
    def is_open(self) -> bool:
        """Whether a call has begun and not ended."""
        return self._is_open

    @property
    def is_full(self) -> bool:
        """Whether what may follow is unwanted."""
        return self._single and self._count > 0 and not self._is_open

    @property
    def any(self) -> bool:
        """Whether there was a call."""
        return self._count > 0

    @property
    def has_arguments(self) -> bool:
        """Whether the open call has had any text of its arguments."""
        return self._has_arguments

    def begin(self, name: str) -> bool:
        """Begin a call; false, and nothing is begun, if nobody declared such a tool."""
        known = self.tools.resolve(name)
        if known is None:
            return False
        self._parts.append(CallBegin(self._count, self._new_id(), known))
        self._count += 1
        self._is_open = True
        self._has_arguments = False
        return True

    def arguments(self, text: str) -> None:
        """More arguments of the open call."""
        if text:
            self._has_arguments = True
            self._parts.append(CallArguments(self._count - 1, text))

    def end(self) -> None:
        """The open call is complete; one without arguments has none, which is `{}`."""
        if not self._has_arguments:
            self.arguments("{}")
        self._parts.append(CallEnd(self._count - 1))
        self._is_open = False

    def content(self, text: str) -> None:
        """Text of the answer."""
        if text:
            self._parts.append(Content(text))

    def reasoning(self, text: str) -> None:
        """Text of the thinking."""
        if text:
            self._parts.append(Reasoning(text))

    def take(self) -> list[Part]:
        """What came since the last time."""
        parts = self._parts
        self._parts = []
        return parts
