"""What generations need from elsewhere, as contracts that a test can stand in for."""

from collections.abc import Sequence
from typing import Protocol

from refloat.generation.request import ChatPrompt
from refloat.parsing.pipeline import TextOut


class PrepPort(Protocol):
    """A model's prep process. Every call has a deadline of its own and survives one restart of prep.

    Each raises `ProblemError`: a 4xx kind for what the caller can change, else a server's kind.
    """

    async def render(self, prompt: ChatPrompt, *, most: int | None = None) -> list[int]:
        """The prompt ids of a rendered chat, untruncated. Raises `TooManyTokensError` beyond `most`."""
        ...

    async def tokenize(
        self, texts: Sequence[str], *, add_special_tokens: bool, most: int | None = None
    ) -> list[list[int]]:
        """Ids of each text, untruncated. Raises `TooManyTokensError` if one has more than `most`."""
        ...

    async def detokenize(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of these ids; bytes that are no UTF-8 become U+FFFD."""
        ...


class Pipeline(Protocol):
    """One choice's way from ids to final text (`parsing/pipeline.py`)."""

    @property
    def stop(self) -> str | None:
        """The stop string that ended the text; `None`: none did."""
        ...

    def push(self, ids: Sequence[int], logprobs: Sequence[float] | None) -> TextOut:
        """What these ids made final."""
        ...

    def flush(self) -> TextOut:
        """No more ids come: what was held back."""
        ...
