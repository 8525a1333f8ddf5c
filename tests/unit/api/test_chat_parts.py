"""Reasoning and calls in OpenAI's shape: deltas, and the same as one message."""

import json

import msgspec

from refloat.api.chat_parts import delta_of, message_of
from refloat.api.fold import Fold
from refloat.generation.events import ChoiceEnd, Delta, FinishReason, Parsed
from refloat.parsing.parts import CallArguments, CallBegin, CallEnd, Reasoning

EVENTS = [
    Parsed(0, Reasoning("so ")),
    Parsed(0, Reasoning("be it")),
    Parsed(0, CallBegin(0, "call_a", "f")),
    Parsed(0, CallArguments(0, '{"a":')),
    Parsed(0, CallArguments(0, " 1}")),
    Parsed(0, CallEnd(0)),
    Parsed(0, CallBegin(1, "call_b", "g")),
    Parsed(0, CallArguments(1, "{}")),
    Parsed(0, CallEnd(1)),
    ChoiceEnd(0, FinishReason.TOOL_CALLS),
]


def _json(value: object) -> object:
    return json.loads(msgspec.json.encode(value))


def test_first_delta_of_a_call_has_id_type_and_name_and_later_ones_only_arguments() -> None:
    deltas = [_json(delta_of(event)) for event in EVENTS if isinstance(event, Parsed)]
    begin = {"name": "f", "arguments": ""}
    assert deltas[0] == {"reasoning_content": "so "}
    assert deltas[2] == {
        "tool_calls": [{"index": 0, "id": "call_a", "type": "function", "function": begin}]
    }
    assert deltas[4] == {"tool_calls": [{"index": 0, "function": {"arguments": " 1}"}}]}
    assert deltas[5] is None


def test_whole_message_has_what_the_deltas_had() -> None:
    fold = Fold(1)
    for event in EVENTS:
        fold.push(event)
    assert _json(message_of(fold.choices[0])) == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "reasoning_content": "so be it",
        "tool_calls": [
            {
                "id": "call_a",
                "type": "function",
                "function": {"name": "f", "arguments": '{"a": 1}'},
            },
            {"id": "call_b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }


def test_message_without_calls_has_no_list_of_them() -> None:
    fold = Fold(1)
    fold.push(Delta(0, ""))
    assert _json(message_of(fold.choices[0])) == {
        "role": "assistant",
        "content": "",
        "refusal": None,
    }
