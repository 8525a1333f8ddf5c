"""A checked body of either dialect becomes the one internal request. Bad bodies end here."""

from dataclasses import dataclass

from refloat.api.caller import Caller, deadline_s, retention_of
from refloat.api.errors import invalid
from refloat.api.schema.chat import CHAT_DECODER, ChatBody, chat_prompt, chat_wish, check_chat
from refloat.api.schema.checks import stop_strings, stop_token_ids
from refloat.api.schema.completions import (
    COMPLETION_DECODER,
    CompletionBody,
    check_completion,
    prompts_of,
)
from refloat.api.schema.decode import decode_body
from refloat.api.schema.forms import guided_wish
from refloat.api.schema.shared import GenerationBody, include_usage
from refloat.api.schema.unsupported import CHAT, COMPLETIONS
from refloat.generation.request import GenerationRequest, Sampling

COMPLETION_MAX_TOKENS = 16
#: The engine takes no 0; so little of the distribution is the likeliest token alone.
SMALLEST_TOP_P = 1e-6
#: ... and no 1; so much of the likeliest token's chance only that token has.
_LARGEST_MIN_P = 1 - 1e-6


@dataclass(frozen=True, slots=True)
class Order:
    """What a client ordered: the generations, and the form of the answer."""

    request: GenerationRequest
    stream: bool = False
    include_usage: bool = False
    top_logprobs: int = 0
    """Alternatives to tell for each token (the chosen one is all there is)."""
    told: object = None
    """What the dialect's encoder has to say of the body beside its answer."""


def translate_chat(data: bytes, caller: Caller) -> Order:
    """A `/chat/completions` body. Raises `ProblemError`."""
    body = decode_body(data, CHAT_DECODER)
    check_chat(body)
    limit, limit_param = body.max_tokens, "max_tokens"
    if body.max_completion_tokens is not None:
        limit, limit_param = body.max_completion_tokens, "max_completion_tokens"
    prompt = chat_prompt(body)
    request = GenerationRequest(
        request_id=caller.request_id,
        tenant=caller.tenant,
        model=body.model,
        prompts=(prompt,),
        sampling=_sampling(body, limit, limit_param, logprobs=bool(body.logprobs)),
        n=body.n or 1,
        max_tokens_param=limit_param,
        prompt_param="messages",
        deadline_s=deadline_s(body, caller),
        priority=caller.priority,
        guide=chat_wish(body, prompt),
        holds_guided=body.guided_stream == "hold",
        retention=retention_of(body, caller, CHAT, data),
    )
    return _order(body, request, body.top_logprobs or 0)


def translate_completion(data: bytes, caller: Caller) -> Order:
    """A `/completions` body. Raises `ProblemError`."""
    body = decode_body(data, COMPLETION_DECODER)
    check_completion(body)
    wants_logprobs = body.logprobs is not None
    request = GenerationRequest(
        request_id=caller.request_id,
        tenant=caller.tenant,
        model=body.model,
        prompts=prompts_of(body),
        sampling=_sampling(body, body.max_tokens, "max_tokens", logprobs=wants_logprobs),
        n=body.n or 1,
        best_of=body.best_of,
        echo=bool(body.echo),
        default_max_tokens=COMPLETION_MAX_TOKENS,
        prompt_param="prompt",
        deadline_s=deadline_s(body, caller),
        priority=caller.priority,
        guide=guided_wish(body),
        holds_guided=body.guided_stream == "hold",
        retention=retention_of(body, caller, COMPLETIONS, data),
    )
    return _order(body, request, body.logprobs or 0)


def _order(body: ChatBody | CompletionBody, request: GenerationRequest, alternatives: int) -> Order:
    return Order(
        request=request,
        stream=bool(body.stream),
        include_usage=include_usage(body),
        top_logprobs=alternatives,
    )


def _sampling(
    body: GenerationBody, limit: int | None, limit_param: str, *, logprobs: bool
) -> Sampling:
    min_tokens = body.min_tokens or 0
    if limit is not None and min_tokens > limit:
        raise invalid(f"min_tokens ({min_tokens}) is above {limit_param} ({limit}).", "min_tokens")
    return Sampling(
        max_tokens=limit,
        min_tokens=min_tokens,
        temperature=body.temperature,
        top_p=None if body.top_p is None else max(body.top_p, SMALLEST_TOP_P),
        top_k=None if body.top_k is None else max(body.top_k, 0),
        min_p=None if body.min_p is None else min(body.min_p, _LARGEST_MIN_P),
        # engines count seeds from 0
        seed=None if body.seed is None else body.seed % 2**63,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        repetition_penalty=body.repetition_penalty,
        stop=stop_strings(body.stop),
        include_stop_str_in_output=bool(body.include_stop_str_in_output),
        stop_token_ids=stop_token_ids(body.stop_token_ids),
        ignore_eos=bool(body.ignore_eos),
        logprobs=logprobs,
    )
