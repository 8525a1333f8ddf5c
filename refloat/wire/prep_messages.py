"""The messages between the gateway and its prep processes, by receiver. See `messages.py`."""

from typing import Any

import msgspec

from refloat.wire.guide import Guide, GuideRequest
from refloat.wire.messages import Hello
from refloat.wire.problem import Problem

# --- for prep -------------------------------------------------------------------------------------


class PrepConfigure(msgspec.Struct, frozen=True, tag="prep_configure", omit_defaults=True):
    """Open this model's tokenizer and template. The answer is `PrepReady` or `PrepFailed`."""

    version: int
    model_path: str
    """Folder with the tokenizer IR; empty for the scripted engine's own tokenizer."""
    tokenizer: str
    """`openvino` or `scripted`."""
    chat_template_file: str | None = None
    render_limit_s: float = 5.0
    """Wall time that one rendering may take."""
    options: dict[str, Any] = {}


class Render(msgspec.Struct, frozen=True, tag="render", omit_defaults=True):
    """Render a chat into a prompt and tokenize it. Answer: `Tokens` or `PrepRefused`."""

    job: int
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    template_kwargs: dict[str, Any] = {}
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    most: int | None = None
    """Tokens beyond which only their number is wanted: a prompt that can never be used may be many
    times as large as the text it came from."""


class Tokenize(msgspec.Struct, frozen=True, tag="tokenize", omit_defaults=True):
    """Tokenize texts, never truncated. Answer: `Tokens` or `PrepRefused`."""

    job: int
    texts: list[str]
    add_special_tokens: bool = True
    most: int | None = None
    """As in `Render`, for each text."""


class Detokenize(msgspec.Struct, frozen=True, tag="detokenize", omit_defaults=True):
    """The text of these ids, special tokens included if asked for. Answer: `Text`."""

    job: int
    tokens: bytes
    skip_special_tokens: bool = True


class MakeGuide(msgspec.Struct, frozen=True, tag="make_guide"):
    """Make a grammar of a wish, and see that the engine can compile it. Answer: `Guided` or
    `PrepRefused`. Answered out of turn: other jobs go on meanwhile."""

    job: int
    wish: GuideRequest


class ResumeGuide(msgspec.Struct, frozen=True, tag="resume_guide"):
    """What a guide leaves for the rest of an answer that has begun. As `MakeGuide` otherwise; the
    answer has no guide if the text is no beginning of anything that the guide allows."""

    job: int
    guide: Guide
    emitted: str
    """As the grammar engine saw it, control marks spelt out."""


class CheckGuide(msgspec.Struct, frozen=True, tag="check_guide"):
    """Whether a text is what a guide allows. As `ResumeGuide` otherwise; the answer has the guide if it
    is, and none if it is not."""

    job: int
    guide: Guide
    emitted: str
    is_whole: bool
    """Else it has only to begin like something that the guide allows."""


#: Answered out of turn, by prep's children.
GuideJob = MakeGuide | ResumeGuide | CheckGuide

ToPrep = PrepConfigure | Render | Tokenize | Detokenize | GuideJob


# --- for the gateway, from prep -------------------------------------------------------------------


class TokenTable(msgspec.Struct, frozen=True):
    """The bytes of every token, so that the gateway can detokenize by itself.

    `lengths[i]` bytes of `blob` belong to token `i`, in order.
    """

    blob: bytes
    lengths: bytes
    """Packed int32, one for each token of the vocabulary."""
    special_ids: tuple[int, ...]
    """Tokens that are control marks and never part of the text."""
    strip_leading_space: bool = False
    """The first token of a text loses one leading space (SentencePiece)."""
    exact: bool = True
    """Whether the tokenizer's own decoding of many texts gave the same; if false, it differed in
    white space only (it tidies up). Our text is the table's text either way."""


class PrepReady(msgspec.Struct, frozen=True, tag="prep_ready", omit_defaults=True):
    """The tokenizer stands."""

    table: TokenTable
    vocab_size: int
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    chat_template: str | None = None
    """Where the template came from (`chat_template.jinja`, `rt_info`, ...); `None`: there is none."""
    template_text: str | None = None
    """What the template says, the one for tools included; by it the gateway knows how calls and
    reasoning are written."""
    chat_unavailable: str | None = None
    """Why chat cannot work although the tokenizer does (no template, a syntax error and its line)."""


class PrepFailed(msgspec.Struct, frozen=True, tag="prep_failed"):
    """The tokenizer cannot be opened; prep exits after this."""

    message: str


class Tokens(msgspec.Struct, frozen=True, tag="tokens", omit_defaults=True):
    """Packed ids, one entry for each text (one for a rendering)."""

    job: int
    ids: tuple[bytes, ...]
    too_many: int | None = None
    """Tokens of the first text that has more than `most`; there are no ids then."""


class Text(msgspec.Struct, frozen=True, tag="text"):
    """A decoded text."""

    job: int
    text: str


class PrepRefused(msgspec.Struct, frozen=True, tag="prep_refused"):
    """This job cannot be done, and why in the caller's terms."""

    job: int
    problem: Problem


class Guided(msgspec.Struct, frozen=True, tag="guided"):
    """A guide that the engine compiles, in time and within bounds."""

    job: int
    guide: Guide | None


FromPrep = Hello | PrepReady | PrepFailed | Tokens | Text | Guided | PrepRefused
