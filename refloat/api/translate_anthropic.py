"""Anthropic's bodies become the one internal request, or a prompt to count. Bad bodies end here."""

from refloat.api.caller import Caller, deadline_s, retention_of
from refloat.api.schema.anthropic import (
    COUNT_DECODER,
    MESSAGES_DECODER,
    CountBody,
    check_count,
    check_messages,
    checked_tools,
    message_wish,
    template_kwargs,
)
from refloat.api.schema.anthropic_turns import checked_turns, is_prefill
from refloat.api.schema.checks import stop_strings
from refloat.api.schema.decode import decode_body
from refloat.api.schema.unsupported import MESSAGES
from refloat.api.translate import SMALLEST_TOP_P, Order
from refloat.generation.request import ChatPrompt, GenerationRequest, Sampling


def translate_messages(data: bytes, caller: Caller) -> Order:
    """A `/messages` body. Raises `ProblemError`."""
    body = decode_body(data, MESSAGES_DECODER)
    check_messages(body)
    prompt = _prompt(body)
    request = GenerationRequest(
        request_id=caller.request_id,
        tenant=caller.tenant,
        model=body.model,
        prompts=(prompt,),
        sampling=Sampling(
            max_tokens=body.max_tokens,
            temperature=body.temperature,
            top_p=None if body.top_p is None else max(body.top_p, SMALLEST_TOP_P),
            top_k=body.top_k,
            stop=stop_strings(body.stop_sequences, "stop_sequences"),
        ),
        prompt_param="messages",
        deadline_s=deadline_s(body, caller),
        priority=caller.priority,
        guide=message_wish(body, prompt.tools),
        holds_guided=body.guided_stream == "hold",
        retention=retention_of(body, caller, MESSAGES, data),
    )
    return Order(request=request, stream=bool(body.stream))


def translate_count(data: bytes) -> tuple[str, ChatPrompt]:
    """Model and prompt of a `/messages/count_tokens` body. Raises `ProblemError`."""
    body = decode_body(data, COUNT_DECODER)
    check_count(body)
    return body.model, _prompt(body)


def _prompt(body: CountBody) -> ChatPrompt:
    messages = checked_turns(body)
    continues = is_prefill(body)
    choice = body.tool_choice
    return ChatPrompt(
        messages=messages,
        tools=checked_tools(body),
        template_kwargs=template_kwargs(body),
        add_generation_prompt=not continues,
        continue_final_message=continues,
        single_call=choice is not None and bool(choice.disable_parallel_tool_use),
    )
