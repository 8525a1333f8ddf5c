"""The one internal request into which every dialect is translated, and nothing of any dialect.

`None` means that the caller did not say; `intake.py` resolves it from the model's defaults.
"""

from typing import Any

import msgspec

from refloat.wire.guide import GuideRequest


class ChatPrompt(msgspec.Struct, frozen=True, tag="chat"):
    """To be rendered by the model's template. Messages are in OpenAI's shape, already checked."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    template_kwargs: dict[str, Any] = {}
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    single_call: bool = False
    """The answer ends with its first tool call."""


class TextPrompt(msgspec.Struct, frozen=True, tag="text"):
    """To be tokenized as it is."""

    text: str
    add_special_tokens: bool = True


class TokenPrompt(msgspec.Struct, frozen=True, tag="tokens"):
    """Ids, taken as they are once checked against the vocabulary."""

    ids: tuple[int, ...]


Prompt = ChatPrompt | TextPrompt | TokenPrompt


class Sampling(msgspec.Struct, frozen=True):
    """What the caller said about decoding, within documented ranges; `None`: nothing."""

    max_tokens: int | None = None
    min_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float | None = None
    stop: tuple[str, ...] = ()
    include_stop_str_in_output: bool = False
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logprobs: bool = False


class Retention(msgspec.Struct, frozen=True):
    """What is to become of an answer beside being sent to the client that asked for it."""

    stream: bool = False
    """The client reads it as it comes."""
    cancel: bool = False
    """In so many words: nothing of it is to go on without its client."""
    finish_quota: int = 0
    """It goes on to its end without its client, if no more than so many of its tenant do; 0: not."""
    idempotency_key: str | None = None
    """A repeated request with the same one gets the same answer."""
    sdk_retry: int | None = None
    """How often an SDK that retries by itself has tried this before; `None`: it is none."""
    body_digest: bytes = b""
    """Of route and body; empty where neither of the two above is there."""


class GenerationRequest(msgspec.Struct, frozen=True):
    """One client request: `len(prompts) * n` answers, all or none."""

    request_id: str
    tenant: str
    model: str
    prompts: tuple[Prompt, ...]
    sampling: Sampling = Sampling()
    n: int = 1
    best_of: int | None = None
    """Generate this many for each prompt and keep the `n` with the best mean log-probability."""
    echo: bool = False
    """The answer begins with the prompt's text (completions)."""
    default_max_tokens: int | None = None
    """For a caller who set none: 16 for completions, `None` (all that fits) for chat."""
    max_tokens_param: str = "max_tokens"
    """The caller's name for the limit, for errors that blame it."""
    prompt_param: str = "messages"
    deadline_s: float | None = None
    """Seconds from acceptance within which the answer has to be complete."""
    priority: int = 0
    """Granted with the caller's key, never chosen by the caller. In the waiting line a higher one goes
    first, whoever came earlier; among equals the order is what it is without priorities. Preemption
    takes the lower ones first."""
    guide: GuideRequest | None = None
    """The form that every answer has to have; `None`: any."""
    holds_guided: bool = False
    """What has to have a form is told when it is whole (or cut by its limit), and not before."""
    retention: Retention | None = None
    """`None`: nothing beyond this client's connection."""


def without_prompts(request: GenerationRequest) -> GenerationRequest:
    """The request without what only its admission needs: prompts may be megabytes."""
    empty = (TokenPrompt(()),) * len(request.prompts)
    return msgspec.structs.replace(request, prompts=empty, guide=None)
