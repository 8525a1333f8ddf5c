"""The parser of one choice: reasoning first, calls in what is left of the text. Knows no family.

Also what of a tokenizer's control marks it has to see, and that none of them gets out.
"""

import secrets
import string
from collections.abc import Iterable

from refloat.parsing.calls import Calls
from refloat.parsing.declared import DeclaredTools
from refloat.parsing.families import GPT_OSS, REASONING_FAMILIES, TOOL_FAMILIES
from refloat.parsing.parts import Content, Parser, Part, Reasoning
from refloat.parsing.reasoning.harmony import HarmonyParser
from refloat.parsing.reasoning.tagged import TaggedReasoning, prompt_opens
from refloat.parsing.tags import TagFinder
from refloat.parsing.vocabulary import Vocabulary

_ALPHABET = string.ascii_letters + string.digits
_PLAIN_ID_CHARS = 24
#: Tokens of the prompt's end by which it is told whether it opened the reasoning.
TAIL_TOKENS = 64


class Format:
    """What is parsed in a model's answers: names of families, or `None`. Immutable."""

    __slots__ = ("reasoning", "tools")

    def __init__(self, tools: str | None, reasoning: str | None) -> None:
        """Raises `KeyError` for a name that is none."""
        self.tools = tools
        self.reasoning = reasoning
        for name, families in ((tools, TOOL_FAMILIES), (reasoning, REASONING_FAMILIES)):
            if name is not None:
                families[name]

    def marks(self, *, with_tools: bool) -> tuple[str, ...]:
        """What the parser has to see even where it is a control mark."""
        marks = REASONING_FAMILIES[self.reasoning].marks if self.reasoning else ()
        if with_tools and self.tools:
            marks += TOOL_FAMILIES[self.tools].marks
        return marks

    def parser(
        self,
        tools: DeclaredTools | None,
        vocabulary: Vocabulary,
        prompt_tail: str = "",
        *,
        single: bool = False,
    ) -> Parser | None:
        """A fresh parser for one choice; `None` if nothing is to be parsed. `single`: the answer ends
        with its first call. `vocabulary` is the one without the marks (not `showing`)."""
        if tools is not None and self.tools is None:
            tools = None
        hidden = vocabulary.special_among(self.marks(with_tools=tools is not None))
        chars = TOOL_FAMILIES[self.tools].id_chars if self.tools else _PLAIN_ID_CHARS
        calls = Calls(tools or DeclaredTools(()), lambda: new_call_id(chars), single=single)
        if GPT_OSS in (self.reasoning, self.tools if tools is not None else None):
            return HarmonyParser(calls)
        inner = (
            TOOL_FAMILIES[self.tools].parser(calls) if tools is not None and self.tools else None
        )
        tags = REASONING_FAMILIES[self.reasoning].tags if self.reasoning else None
        outer = None
        if tags is not None:
            outer = TaggedReasoning(tags, opened=prompt_opens(tags, prompt_tail))
        if outer is None and inner is None:
            return None
        return AnswerParser(outer, inner, hidden)


class AnswerParser:
    """A `Parser` (`parts.py`) made of others."""

    def __init__(
        self, reasoning: TaggedReasoning | None, tools: Parser | None, hidden: Iterable[str] = ()
    ) -> None:
        """`hidden`: control marks, which are never shown even where they mean nothing."""
        self._reasoning = reasoning
        self._tools = tools
        hidden = tuple(hidden)
        self._veil = Veil(hidden) if hidden else None

    @property
    def is_done(self) -> bool:
        """Nothing that may follow is wanted."""
        return self._tools is not None and self._tools.is_done

    def push(self, text: str) -> list[Part]:
        """Take more text."""
        parts = self._called(self._reasoning.push(text)) if self._reasoning else self._push(text)
        return parts if self._veil is None else self._veil.push(parts)

    def finish(self, *, cut: bool) -> list[Part]:
        """No more text comes."""
        parts = self._called(self._reasoning.finish(cut=cut)) if self._reasoning else []
        if self._tools is not None:
            parts += self._tools.finish(cut=cut)
        if self._veil is not None:
            parts = [*self._veil.push(parts), *self._veil.flush()]
        return parts

    def _push(self, text: str) -> list[Part]:
        return [Content(text)] if self._tools is None else self._tools.push(text)

    def _called(self, parts: list[Part]) -> list[Part]:
        """The parts with the calls told apart from the text."""
        if self._tools is None:
            return parts
        result: list[Part] = []
        for part in parts:
            result += self._tools.push(part.text) if isinstance(part, Content) else (part,)
        return result


class Veil:
    """Takes marks out of the texts among parts."""

    __slots__ = ("_finder", "_held", "_kind")

    def __init__(self, marks: Iterable[str]) -> None:
        self._finder = TagFinder(marks)
        self._held = ""
        """May be the beginning of a mark."""
        self._kind: type[Content | Reasoning] = Content

    def push(self, parts: Iterable[Part]) -> list[Part]:
        """What may be shown by now."""
        result: list[Part] = []
        for part in parts:
            if not isinstance(part, self._kind):
                result += self.flush()
            if isinstance(part, Content | Reasoning):
                self._kind = type(part)
                text = self._shown(part.text)
                if text:
                    result.append(self._kind(text))
            else:
                result.append(part)
        return result

    def flush(self) -> list[Part]:
        """No mark can go on across what comes now."""
        held, self._held = self._held, ""
        return [self._kind(held)] if held else []

    def _shown(self, text: str) -> str:
        text = self._held + text
        out: list[str] = []
        at = 0
        while (found := self._finder.find(text, at)) is not None:
            out.append(text[at : found.start])
            at = found.end
        end = self._finder.safe_end(text, at)
        self._held = text[end:]
        return "".join(out) + text[at:end]


def new_call_id(chars: int) -> str:
    """An id that no other call has. Short ones have no prefix: every character is chance."""
    if chars < _PLAIN_ID_CHARS:
        return "".join(secrets.choice(_ALPHABET) for _ in range(chars))
    return "call_" + "".join(secrets.choice(_ALPHABET) for _ in range(chars))
