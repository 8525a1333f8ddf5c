"""The body of `/completions`."""

from typing import Any

import msgspec

from refloat.api.errors import invalid
from refloat.api.schema.checks import (
    MAX_CHOICES,
    MAX_GENERATIONS,
    MAX_PROMPTS,
    Range,
    check_ranges,
    token_ids,
)
from refloat.api.schema.shared import GenerationBody, check_shared
from refloat.api.schema.unsupported import COMPLETIONS, check_supported, unsupported
from refloat.generation.request import Prompt, TextPrompt, TokenPrompt

_RANGES = (Range("best_of", 1, MAX_CHOICES), Range("logprobs", 0, 5))


class CompletionBody(GenerationBody, kw_only=True):
    """OpenAI's text completion request and vLLM's extra sampling fields."""

    prompt: str | list[str | int | list[int]]
    echo: bool | None = None
    best_of: int | None = None
    logprobs: int | None = None
    suffix: Any = None
    add_special_tokens: bool | None = None


COMPLETION_DECODER = msgspec.json.Decoder(CompletionBody)


def check_completion(body: CompletionBody) -> None:
    """Everything that can be known of the body without a model. Raises `ProblemError`."""
    check_shared(COMPLETIONS, body)
    check_ranges(body, _RANGES)
    check_supported(COMPLETIONS, "logprobs", body.logprobs)
    if body.echo and body.logprobs is not None:
        raise unsupported(COMPLETIONS, "echo")
    n = body.n or 1
    if body.best_of is not None:
        if body.stream and body.best_of > n:
            raise invalid("best_of above n cannot be streamed.", "best_of")
        if body.best_of < n:
            raise invalid(f"best_of ({body.best_of}) has to be n ({n}) at least.", "best_of")


def prompts_of(body: CompletionBody) -> tuple[Prompt, ...]:
    """One prompt for each answer group. Raises `ProblemError`."""
    prompt = body.prompt
    special = body.add_special_tokens is not False
    if isinstance(prompt, str):
        prompts: tuple[Prompt, ...] = (_text(prompt, "prompt", special=special),)
    elif not prompt:
        raise invalid("prompt must not be empty.", "prompt")
    elif isinstance(prompt[0], int):
        prompts = (TokenPrompt(token_ids(prompt, "prompt")),)
    else:
        prompts = _listed(prompt, special=special)
    each = max(body.n or 1, body.best_of or 1)
    if len(prompts) * each > MAX_GENERATIONS:
        message = f"Prompts times n or best_of may be {MAX_GENERATIONS} at most."
        raise invalid(message, "best_of" if body.best_of is not None else "n")
    return prompts


def _listed(prompt: list[str | int | list[int]], *, special: bool) -> tuple[Prompt, ...]:
    if len(prompt) > MAX_PROMPTS:
        raise invalid(f"prompt may be a list of {MAX_PROMPTS} prompts at most.", "prompt")
    kind = type(prompt[0])
    prompts: list[Prompt] = []
    for index, item in enumerate(prompt):
        param = f"prompt[{index}]"
        if type(item) is not kind:
            raise invalid("prompt has to be all strings or all lists of token ids.", param)
        if isinstance(item, str):
            prompts.append(_text(item, param, special=special))
        elif isinstance(item, list):
            if not item:
                raise invalid(f"{param} must not be empty.", param)
            prompts.append(TokenPrompt(token_ids(item, param)))
    return tuple(prompts)


def _text(text: str, param: str, *, special: bool) -> TextPrompt:
    if not text:
        raise invalid(f"{param} must not be empty.", param)
    return TextPrompt(text, add_special_tokens=special)
