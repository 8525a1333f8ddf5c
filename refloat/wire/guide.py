"""What a generation's text has to be like: as a caller asks for it, and as engines get it."""

from enum import StrEnum

import msgspec


class Guide(msgspec.Struct, frozen=True, omit_defaults=True):
    """A grammar that the engine holds an answer to, from its next token on."""

    ebnf: str
    """In xgrammar's EBNF; its start rule is `root`."""
    compile_s: float = 0.0
    """What its trial compile took. The engine will spend as much again in the step that begins it, and
    that step is not to pass for a stall."""


class GuideKind(StrEnum):
    """What a caller may ask for."""

    JSON = "json"
    """Any JSON value."""
    JSON_OBJECT = "json_object"
    JSON_SCHEMA = "json_schema"
    """`text`: the schema, as JSON."""
    REGEX = "regex"
    """`text`: a pattern for the whole answer."""
    GRAMMAR = "grammar"
    """`text`: a grammar, as EBNF."""
    CHOICE = "choice"
    """`text`: the texts of which it has to be one, as a JSON list."""
    CALLS = "calls"
    """`text`: the tools that may be called, as a JSON list in OpenAI's shape."""
    TEXT_OR_CALLS = "text_or_calls"
    """As `CALLS`; but it may as well be any text, before calls or alone."""

    @property
    def is_of_tools(self) -> bool:
        """Whether `text` has the tools that are declared."""
        return self in (GuideKind.CALLS, GuideKind.TEXT_OR_CALLS)


class ReasoningSpan(msgspec.Struct, frozen=True, omit_defaults=True):
    """Reasoning that may stand before what is asked for."""

    begin: str
    end: str
    is_open: bool = False
    """The prompt has begun it: the answer's first part is reasoning."""


class GuideRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """One wish for the form of an answer."""

    kind: GuideKind
    text: str = ""
    param: str = ""
    """The caller's own name for the field it came from, for what is refused."""
    family: str | None = None
    """The format in which the model writes calls."""
    tools: str = ""
    """For other kinds: the tools that may be called instead, as a JSON list in OpenAI's shape."""
    named: str | None = None
    """For `CALLS`: the one function that has to be called."""
    single: bool = False
    """Of calls: one and no more."""
    reasoning: ReasoningSpan | None = None
