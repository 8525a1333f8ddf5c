"""One choice's way from token ids to final text. Its state survives the worker: the gateway has it.

ids → bytes (`vocabulary`) → characters → stop strings (`stop`) → text that may go out.
"""

from typing import NamedTuple


class TokenLogprob(NamedTuple):
    """The chosen token at one position."""

    token_id: int
    raw: bytes
    """The token's own bytes; joined over an answer they decode to its text."""
    logprob: float


class TextOut(NamedTuple):
    """What became final by one push."""

    text: str
    """Never taken back, never sent again; may be empty."""
    logprobs: tuple[TokenLogprob, ...]
    """Of the tokens whose text became final."""
    stopped: bool
    """A stop string was found: nothing more will come, and the generation is to be ended."""
