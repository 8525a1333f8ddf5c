"""From what a caller said to complete decoding parameters, or to the error that names the field. Pure.

Order of precedence: the request, the model's `generation_config.json`, OpenAI's defaults.
"""

from collections.abc import Sequence
from typing import TypeVar

from refloat.generation.request import GenerationRequest, TokenPrompt
from refloat.generation.seeds import choice_seed
from refloat.supervisor.fleet import ModelFacts
from refloat.wire.guide import Guide
from refloat.wire.messages import SamplingParams
from refloat.wire.problem import ProblemError, ProblemKind

_Number = TypeVar("_Number", int, float)

_OPENAI_TEMPERATURE = 1.0
_OPENAI_TOP_P = 1.0


def check_request(request: GenerationRequest, facts: ModelFacts) -> None:
    """What can be judged before any prompt is tokenized. Raises `ProblemError`."""
    best_of = request.best_of
    if best_of is not None and best_of < request.n:
        raise ProblemError.of(
            ProblemKind.INVALID_REQUEST,
            f"'best_of' is {best_of} but has to be at least 'n', which is {request.n}.",
            param="best_of",
        )
    if not facts.capabilities.logprobs:
        _refuse_logprobs(request)
    _check_ids(request.sampling.stop_token_ids, facts.vocab_size, "stop_token_ids")
    for index, prompt in enumerate(request.prompts):
        if isinstance(prompt, TokenPrompt):
            _check_ids(prompt.ids, facts.vocab_size, prompt_place(request, index))


def prompt_place(request: GenerationRequest, index: int) -> str:
    """The caller's name for one prompt."""
    if len(request.prompts) == 1:
        return request.prompt_param
    return f"{request.prompt_param}[{index}]"


def check_prompts(
    request: GenerationRequest, prompts: Sequence[Sequence[int]], facts: ModelFacts
) -> None:
    """Empty prompts, and lengths that do not go together. Raises `ProblemError`."""
    for index, ids in enumerate(prompts):
        if not ids:
            raise ProblemError.of(
                ProblemKind.INVALID_REQUEST,
                "The prompt has no tokens; at least one is needed.",
                param=prompt_place(request, index),
            )
        _check_context(request, len(ids), facts.context_length)
        _check_min_tokens(request, _max_tokens(request, len(ids), facts))


def params_for(
    request: GenerationRequest,
    prompt_tokens: int,
    choice: int,
    seed: int,
    facts: ModelFacts,
    guide: Guide | None = None,
) -> SamplingParams:
    """Complete parameters of a prompt's choice number `choice`.

    The prompt has passed `check_prompts`; `seed` is the request's, drawn if it brought none.
    """
    said, defaults = request.sampling, facts.sampling
    eos = () if said.ignore_eos else facts.eos_token_ids
    return SamplingParams(
        max_tokens=_max_tokens(request, prompt_tokens, facts),
        min_tokens=said.min_tokens,
        temperature=_first(said.temperature, defaults.temperature, _OPENAI_TEMPERATURE),
        top_p=_first(said.top_p, defaults.top_p, _OPENAI_TOP_P),
        top_k=_first(said.top_k, defaults.top_k, 0),
        min_p=_first(said.min_p, defaults.min_p, 0.0),
        seed=choice_seed(seed, choice),
        presence_penalty=said.presence_penalty,
        frequency_penalty=said.frequency_penalty,
        repetition_penalty=_first(said.repetition_penalty, defaults.repetition_penalty, 1.0),
        stop_token_ids=tuple(dict.fromkeys((*eos, *said.stop_token_ids))),
        logprobs=said.logprobs or candidates(request) > request.n,
        guide=guide,
    )


def candidates(request: GenerationRequest) -> int:
    """Generations for each prompt."""
    return request.best_of or request.n


def _max_tokens(request: GenerationRequest, prompt_tokens: int, facts: ModelFacts) -> int:
    if request.sampling.max_tokens is not None:
        return request.sampling.max_tokens
    left = facts.context_length - prompt_tokens
    default = request.default_max_tokens
    if default is None:
        default = facts.max_output_tokens
    return left if default is None else min(left, default)


def _check_context(request: GenerationRequest, prompt_tokens: int, limit: int) -> None:
    """Judged on prompt + explicit `max_tokens` (prompt + 1 if none): shorter is never refused."""
    if prompt_tokens + (request.sampling.max_tokens or 1) > limit:
        raise context_exceeded(request, prompt_tokens, limit)


def context_exceeded(request: GenerationRequest, prompt_tokens: int, limit: int) -> ProblemError:
    """The refusal of a request that is longer than the context."""
    asked = request.sampling.max_tokens
    noun = request.prompt_param
    # OpenAI's own sentences: agents recognise an overflow by them.
    message = f"This model's maximum context length is {limit} tokens. However, "
    if asked is None:
        message += f"your {noun} resulted in {prompt_tokens} tokens. "
        message += f"Please reduce the length of the {noun}."
    else:
        message += f"you requested {prompt_tokens + asked} tokens ({prompt_tokens} in the {noun}, "
        message += f"{asked} in the completion). "
        message += f"Please reduce the length of the {noun} or completion."
    return ProblemError.of(ProblemKind.CONTEXT_LENGTH_EXCEEDED, message, param=noun)


def _check_min_tokens(request: GenerationRequest, max_tokens: int) -> None:
    min_tokens = request.sampling.min_tokens
    if min_tokens > max_tokens:
        raise ProblemError.of(
            ProblemKind.INVALID_REQUEST,
            f"'min_tokens' is {min_tokens}, but the answer can have at most {max_tokens} tokens.",
            param="min_tokens",
        )


def _refuse_logprobs(request: GenerationRequest) -> None:
    if request.sampling.logprobs:
        param, name = "logprobs", "'logprobs'"
    elif candidates(request) > request.n:
        param, name = "best_of", "'best_of' greater than 'n' (it ranks by log-probability)"
    else:
        return
    raise ProblemError.of(
        ProblemKind.UNSUPPORTED_VALUE,
        f"This model's engine gives no log-probabilities, so {name} is not supported.",
        param=param,
    )


def _check_ids(ids: Sequence[int], vocab_size: int, param: str) -> None:
    if not ids or (min(ids) >= 0 and max(ids) < vocab_size):
        return
    place = next(n for n, token in enumerate(ids) if not 0 <= token < vocab_size)
    raise ProblemError.of(
        ProblemKind.INVALID_REQUEST,
        f"{ids[place]} is no token id of this model; ids are from 0 to {vocab_size - 1}.",
        param=f"{param}[{place}]",
    )


def _first(said: _Number | None, default: _Number | None, otherwise: _Number) -> _Number:
    if said is not None:
        return said
    return default if default is not None else otherwise
