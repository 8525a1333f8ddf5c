"""What a session tells its client: the one event stream that every dialect's encoder folds.

Order: any number of `Delta`s and `Parsed`s and exactly one `ChoiceEnd` for each choice, then exactly
one terminal event, `Completed` or `Failed`. A `Failed` may come at any time and nothing comes after it.
"""

from enum import StrEnum

import msgspec

from refloat.generation.runaway import Cut
from refloat.parsing.parts import CallArguments, CallBegin, CallEnd, Reasoning
from refloat.parsing.pipeline import TokenLogprob
from refloat.wire.problem import Problem


class FinishReason(StrEnum):
    """Why a choice ended, in OpenAI's words."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"


class Delta(msgspec.Struct, frozen=True, gc=False):
    """Text that is final: it will be neither taken back nor sent again."""

    index: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()
    """The tokens this text came from; only if asked for."""


class Parsed(msgspec.Struct, frozen=True, gc=False):
    """A part of the answer that is not its text: reasoning, or something of a tool call."""

    index: int
    part: Reasoning | CallBegin | CallArguments | CallEnd


def part_bytes(part: Reasoning | CallBegin | CallArguments | CallEnd) -> int:
    """What its text costs while it is held."""
    return len(part.text) if isinstance(part, Reasoning | CallArguments) else 0


class ChoiceEnd(msgspec.Struct, frozen=True, gc=False):
    """This choice is complete."""

    index: int
    reason: FinishReason
    cut: Cut | None = None
    """Set when a rule against runaway answers ended it; `reason` is `LENGTH` then."""
    stop: str | None = None
    """The stop string that ended it; `reason` is `STOP` then."""


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens as counted by the gateway, over all choices."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    reasoning_tokens: int = 0
    """Of the completion's."""


class Completed(msgspec.Struct, frozen=True, gc=False):
    """Terminal: every choice ended."""

    usage: Usage


class Failed(msgspec.Struct, frozen=True, gc=False):
    """Terminal: the request as a whole failed; its unfinished choices are cancelled."""

    problem: Problem


Event = Delta | Parsed | ChoiceEnd | Completed | Failed
