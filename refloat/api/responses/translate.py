"""A `/responses` body becomes the one internal request, with what was said before it."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from refloat.api.body_cost import decoded_bytes
from refloat.api.caller import Caller, deadline_s, retention_of
from refloat.api.errors import invalid
from refloat.api.responses.database import StoredResponse
from refloat.api.responses.desk import ResponseDesk
from refloat.api.responses.told import Told
from refloat.api.schema.decode import decode_body
from refloat.api.schema.responses import (
    RESPONSES_DECODER,
    ResponsesBody,
    check_responses,
    checked_functions,
    reasoning_kwargs,
    response_wish,
)
from refloat.api.schema.responses_items import Conversation
from refloat.api.schema.unsupported import RESPONSES
from refloat.api.translate import SMALLEST_TOP_P, Order
from refloat.generation.request import ChatPrompt, GenerationRequest, Sampling

_encode = msgspec.json.Encoder().encode


async def translate_responses(
    desk: ResponseDesk, data: bytes, caller: Caller, hold: Callable[[int], None]
) -> Order:
    """`hold` is told what the conversation before this takes in memory. Raises `ProblemError`."""
    body = decode_body(data, RESPONSES_DECODER)
    check_responses(body)
    tools = checked_functions(body)
    before: list[StoredResponse] = []
    if body.previous_response_id is not None:
        if desk.store is None:
            message = "Responses are not kept by this server (setting responses_bytes)."
            raise invalid(message, "previous_response_id")
        before = await desk.store.chain(caller.tenant, body.previous_response_id)
        hold(sum(decoded_bytes(one.items) + decoded_bytes(one.answer) for one in before))
    items = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else body.input
    request = GenerationRequest(
        request_id=caller.request_id,
        tenant=caller.tenant,
        model=body.model,
        prompts=(
            ChatPrompt(
                messages=_messages(body, before, items),
                tools=tools,
                template_kwargs=reasoning_kwargs(body),
                single_call=body.parallel_tool_calls is False,
            ),
        ),
        sampling=Sampling(
            max_tokens=body.max_output_tokens,
            temperature=body.temperature,
            top_p=None if body.top_p is None else max(body.top_p, SMALLEST_TOP_P),
        ),
        max_tokens_param="max_output_tokens",
        prompt_param="input",
        deadline_s=deadline_s(body, caller),
        priority=caller.priority,
        guide=response_wish(body, tools),
        holds_guided=body.guided_stream == "hold",
        retention=retention_of(body, caller, RESPONSES, data),
    )
    told = Told(_encode(items), body.store is not False, _echo(body))
    return Order(request=request, stream=bool(body.stream), told=told)


def _messages(
    body: ResponsesBody, before: Sequence[StoredResponse], items: list[Any]
) -> list[dict[str, Any]]:
    talk = Conversation()
    if body.instructions is not None:
        talk.instruct(body.instructions)
    for stored in before:
        talk.take(msgspec.json.decode(stored.items), "previous_response_id")
        talk.take(msgspec.json.decode(stored.answer)["output"], "previous_response_id")
    talk.take(items, "input")
    messages = talk.messages()
    if not messages:
        raise invalid("input must not be empty.", "input")
    return messages


def _echo(body: ResponsesBody) -> dict[str, Any]:
    """What an answer repeats of its request."""
    said = {
        "instructions": body.instructions,
        "previous_response_id": body.previous_response_id,
        "max_output_tokens": body.max_output_tokens,
        "temperature": body.temperature,
        "top_p": body.top_p,
        "tools": body.tools or None,
        "tool_choice": body.tool_choice,
        "parallel_tool_calls": body.parallel_tool_calls,
        "reasoning": body.reasoning,
        "metadata": body.metadata,
        "user": body.user,
    }
    return {name: value for name, value in said.items() if value is not None}
