"""Folds a session's events into whole choices: the same events that a stream encodes one by one."""

from dataclasses import dataclass, field

from refloat.generation.events import ChoiceEnd, Delta, Event, FinishReason, Parsed
from refloat.generation.runaway import Cut
from refloat.parsing.parts import CallArguments, CallBegin, Part, Reasoning
from refloat.parsing.pipeline import TokenLogprob


@dataclass(slots=True)
class FoldedText:
    """Text of the answer proper, between what else there is."""

    parts: list[str]

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.parts)


@dataclass(slots=True)
class FoldedReasoning:
    """What the model thought at one stretch."""

    parts: list[str]

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.parts)


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


Stretch = FoldedText | FoldedReasoning | FoldedCall


@dataclass(slots=True)
class FoldedChoice:
    """One choice so far."""

    stretches: list[Stretch] = field(default_factory=list[Stretch])
    """In the order in which they came; neighbours of one kind are one, but for calls."""
    calls: list[FoldedCall] = field(default_factory=list[FoldedCall])
    logprobs: list[TokenLogprob] = field(default_factory=list[TokenLogprob])
    reason: FinishReason | None = None
    cut: Cut | None = None
    stop: str | None = None

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(s.text for s in self.stretches if isinstance(s, FoldedText))

    @property
    def reasoning(self) -> str:
        """The whole reasoning."""
        return "".join(s.text for s in self.stretches if isinstance(s, FoldedReasoning))

    def say(self, text: str) -> None:
        """Take text."""
        last = self.stretches[-1] if self.stretches else None
        if isinstance(last, FoldedText):
            last.parts.append(text)
        elif text:
            self.stretches.append(FoldedText([text]))

    def add(self, part: Part) -> None:
        """Take what is not text."""
        if isinstance(part, Reasoning):
            last = self.stretches[-1] if self.stretches else None
            if isinstance(last, FoldedReasoning):
                last.parts.append(part.text)
            elif part.text:
                self.stretches.append(FoldedReasoning([part.text]))
        elif isinstance(part, CallBegin):
            call = FoldedCall(part.id, part.name)
            self.calls.append(call)
            self.stretches.append(call)
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
            choice.say(event.text)
            choice.logprobs.extend(event.logprobs)
        elif isinstance(event, Parsed):
            self.choices[event.index].add(event.part)
        elif isinstance(event, ChoiceEnd):
            choice = self.choices[event.index]
            choice.reason, choice.cut, choice.stop = event.reason, event.cut, event.stop
