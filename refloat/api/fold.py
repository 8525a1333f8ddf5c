"""Folds a session's events into whole choices: the same events that a stream encodes one by one."""

from dataclasses import dataclass, field

from refloat.generation.events import ChoiceEnd, Delta, Event, FinishReason, Parsed
from refloat.generation.runaway import Cut
from refloat.parsing.parts import CallArguments, CallBegin, Part, Reasoning
from refloat.parsing.pipeline import TokenLogprob


@dataclass(slots=True)
class FoldedCall:
    """One tool call so far."""

    id: str
    name: str
    parts: list[str] = field(default_factory=list[str])

    @property
    def arguments(self) -> str:
        """All arguments."""
        return "".join(self.parts)


@dataclass(slots=True)
class FoldedChoice:
    """One choice so far."""

    parts: list[str] = field(default_factory=list[str])
    thoughts: list[str] = field(default_factory=list[str])
    calls: list[FoldedCall] = field(default_factory=list[FoldedCall])
    logprobs: list[TokenLogprob] = field(default_factory=list[TokenLogprob])
    reason: FinishReason | None = None
    cut: Cut | None = None

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.parts)

    @property
    def reasoning(self) -> str:
        """The whole reasoning."""
        return "".join(self.thoughts)

    def add(self, part: Part) -> None:
        """Take what is not text."""
        if isinstance(part, Reasoning):
            self.thoughts.append(part.text)
        elif isinstance(part, CallBegin):
            self.calls.append(FoldedCall(part.id, part.name))
        elif isinstance(part, CallArguments):
            self.calls[part.call].parts.append(part.text)


class Fold:
    """All choices of one request."""

    def __init__(self, count: int) -> None:
        self.choices = [FoldedChoice() for _ in range(count)]

    def push(self, event: Event) -> None:
        """Take one event; terminal ones change nothing here."""
        if isinstance(event, Delta):
            choice = self.choices[event.index]
            choice.parts.append(event.text)
            choice.logprobs.extend(event.logprobs)
        elif isinstance(event, Parsed):
            self.choices[event.index].add(event.part)
        elif isinstance(event, ChoiceEnd):
            choice = self.choices[event.index]
            choice.reason, choice.cut = event.reason, event.cut
