"""What generations need from elsewhere, as contracts that a test can stand in for."""

from collections.abc import Sequence
from typing import Protocol

from refloat.generation.request import ChatPrompt
from refloat.parsing.pipeline import TextOut
from refloat.wire.guide import Guide, GuideRequest


class PrepPort(Protocol):
    """A model's prep process. Every call has a deadline of its own and survives one restart of prep;
    tenants are served by turns.

    Each raises `ProblemError`: a 4xx kind for what the caller can change, else a server's kind.
    """

    async def render(
        self, prompt: ChatPrompt, *, tenant: str = "", most: int | None = None
    ) -> list[int]:
        """The prompt ids of a rendered chat, untruncated. Raises `TooManyTokensError` beyond `most`."""
        ...

    async def tokenize(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool,
        tenant: str = "",
        most: int | None = None,
    ) -> list[list[int]]:
        """Ids of each text, untruncated. Raises `TooManyTokensError` if one has more than `most`."""
        ...

    async def detokenize(
        self, ids: Sequence[int], *, skip_special_tokens: bool = True, tenant: str = ""
    ) -> str:
        """The text of these ids; bytes that are no UTF-8 become U+FFFD."""
        ...

    async def make_guide(self, wish: GuideRequest, *, tenant: str = "") -> Guide:
        """The grammar of a wish, which the engine was seen to compile in bounds of time and memory."""
        ...

    async def resume_guide(self, guide: Guide, emitted: str) -> Guide | None:
        """What a guide leaves for the rest of an answer; `None`: the text is none of its beginnings."""
        ...

    async def check_guide(self, guide: Guide, text: str, *, is_whole: bool) -> bool:
        """Whether a text is what a guide allows; one that is not whole has only to begin so."""
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

    def forget_partial(self) -> None:
        """The ids that ended inside a character are taken back: others come in their place."""
        ...

    def flush(self) -> TextOut:
        """No more ids come: what was held back."""
        ...
