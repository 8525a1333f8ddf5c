"""`best_of`: keeps the text of every candidate, and gives out the best of each prompt at the end."""

from collections.abc import Iterator
from typing import NamedTuple

from refloat.generation.events import FinishReason
from refloat.generation.journal import Journal
from refloat.parsing.pipeline import TokenLogprob


class Ranked(NamedTuple):
    """One candidate that was kept."""

    choice: int
    """Its index in the answer."""
    text: str
    logprobs: tuple[TokenLogprob, ...]
    reason: FinishReason


class _Candidate:
    __slots__ = ("logprobs", "prompt_index", "reason", "score", "texts")

    def __init__(self, prompt_index: int) -> None:
        self.prompt_index = prompt_index
        self.texts: list[str] = []
        self.logprobs: list[TokenLogprob] = []
        self.reason = FinishReason.STOP
        self.score = float("-inf")


class Ranking:
    """Candidates by generation."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._candidates: dict[int, _Candidate] = {}

    def add(
        self, generation: int, prompt_index: int, text: str, logprobs: tuple[TokenLogprob, ...]
    ) -> None:
        """More text of a candidate."""
        candidate = self._candidates.get(generation)
        if candidate is None:
            candidate = self._candidates[generation] = _Candidate(prompt_index)
        candidate.texts.append(text)
        candidate.logprobs.extend(logprobs)

    def end(self, journal: Journal, prompt_index: int, reason: FinishReason) -> None:
        """A candidate is complete."""
        self.add(journal.generation, prompt_index, "", ())
        candidate = self._candidates[journal.generation]
        candidate.reason = reason
        candidate.score = mean_logprob(journal.logprobs)

    def best(self) -> Iterator[Ranked]:
        """The `n` best of each prompt, best first; of equals the one that began first."""
        by_prompt: dict[int, list[_Candidate]] = {}
        for _, candidate in sorted(self._candidates.items()):
            by_prompt.setdefault(candidate.prompt_index, []).append(candidate)
        for prompt_index, candidates in sorted(by_prompt.items()):
            candidates.sort(key=lambda candidate: -candidate.score)
            for rank, kept in enumerate(candidates[: self._n]):
                index = prompt_index * self._n + rank
                yield Ranked(index, "".join(kept.texts), tuple(kept.logprobs), kept.reason)


def mean_logprob(logprobs: list[float]) -> float:
    """Natural logarithm for each token; minus infinity where there is no usable figure."""
    mean = sum(logprobs) / len(logprobs) if logprobs else float("-inf")
    return mean if mean == mean else float("-inf")
