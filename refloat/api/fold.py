"""Folds a session's events into whole choices: the same events that a stream encodes one by one."""

from dataclasses import dataclass, field

from refloat.generation.events import ChoiceEnd, Delta, Event, FinishReason
from refloat.generation.runaway import Cut
from refloat.parsing.pipeline import TokenLogprob


@dataclass(slots=True)
class FoldedChoice:
    """One choice so far."""

    parts: list[str] = field(default_factory=list[str])
    logprobs: list[TokenLogprob] = field(default_factory=list[TokenLogprob])
    reason: FinishReason | None = None
    cut: Cut | None = None

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.parts)


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
        elif isinstance(event, ChoiceEnd):
            choice = self.choices[event.index]
            choice.reason, choice.cut = event.reason, event.cut
