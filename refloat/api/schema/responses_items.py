"""Items of `/responses`, those that came in and those that went out, as a template's messages."""

from collections.abc import Sequence
from typing import Any

import msgspec

from refloat.api.errors import invalid
from refloat.api.schema.decode import decode_value
from refloat.api.schema.messages import MAX_MESSAGES, check_arguments
from refloat.api.schema.unsupported import RESPONSES, check_supported, unsupported
from refloat.wire.problem import ProblemError

Message = dict[str, Any]

_ROLES = ("user", "system", "developer", "assistant")
_TEXTS = ("input_text", "output_text", "text", "reasoning_text", "summary_text")


class Part(msgspec.Struct):
    """A part of an item's content."""

    type: str
    text: str | None = None
    refusal: str | None = None


class Item(msgspec.Struct):
    """One item. Which fields it needs depends on its type; without one it is a message."""

    type: str = "message"
    role: str | None = None
    content: str | list[Part] | None = None
    summary: list[Part] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | list[Part] | None = None


class Conversation:
    """Items in their order become messages: what an assistant thought, said and called between two
    others' turns is one."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._called: set[str] = set()
        self._texts: list[str] = []
        """What the assistant at the end has said; joined once, since there may be many."""
        self._thoughts: list[str] = []

    def messages(self) -> list[Message]:
        """All of them; nothing is taken afterwards."""
        self._close()
        return self._messages

    def instruct(self, text: str) -> None:
        """The system prompt."""
        self._say("system", text)

    def take(self, items: Sequence[Any], where: str) -> None:
        """More items. Raises `ProblemError` naming the first one at fault."""
        if len(self._messages) + len(items) > MAX_MESSAGES:
            raise invalid(f"{where} may have {MAX_MESSAGES} entries at most.", where)
        for index, raw in enumerate(items):
            here = f"{where}[{index}]"
            self._take(decode_value(raw, Item, here), here)

    def _take(self, item: Item, where: str) -> None:
        if item.type == "message":
            self._message(item, where)
        elif item.type == "function_call":
            self._call(item, where)
        elif item.type == "function_call_output":
            self._output(item, where)
        elif item.type == "reasoning":
            self._assistant()
            self._thoughts.append(_text(item.content or item.summary or "", where))
        else:
            raise unsupported(RESPONSES, "input[].type", f"{where}.type")

    def _message(self, item: Item, where: str) -> None:
        if item.role not in _ROLES:
            raise invalid(f"{where}.role has to be one of {', '.join(_ROLES)}.", f"{where}.role")
        if item.content is None:
            raise _missing(f"{where}.content")
        text = _text(item.content, f"{where}.content")
        if item.role != "assistant":
            self._say(item.role, text)
        else:
            self._assistant()
            self._texts.append(text)

    def _call(self, item: Item, where: str) -> None:
        if not item.call_id:
            raise _missing(f"{where}.call_id")
        if not item.name:
            raise _missing(f"{where}.name")
        if item.call_id in self._called:
            message = (
                f"{where}.call_id: {item.call_id[:64]!r} is the id of an earlier call already."
            )
            raise invalid(message, f"{where}.call_id")
        self._called.add(item.call_id)
        arguments = item.arguments or "{}"
        check_arguments(arguments, f"{where}.arguments")
        function = {"name": item.name, "arguments": arguments}
        calls = self._assistant().setdefault("tool_calls", [])
        calls.append({"id": item.call_id, "type": "function", "function": function})

    def _output(self, item: Item, where: str) -> None:
        if item.call_id is None:
            raise _missing(f"{where}.call_id")
        if item.call_id not in self._called:
            message = f"{where}.call_id: no earlier item is a call {item.call_id[:64]!r}."
            raise invalid(message, f"{where}.call_id")
        text = _text(item.output or "", f"{where}.output")
        self._say("tool", text)["tool_call_id"] = item.call_id

    def _assistant(self) -> Message:
        if not self._messages or self._messages[-1]["role"] != "assistant":
            return self._say("assistant", "")
        return self._messages[-1]

    def _say(self, role: str, text: str) -> Message:
        self._close()
        self._messages.append({"role": role, "content": text})
        return self._messages[-1]

    def _close(self) -> None:
        """The assistant at the end, if there is one, has said all."""
        if self._texts:
            self._messages[-1]["content"] = "\n".join(self._texts)
        if self._thoughts:
            self._messages[-1]["reasoning_content"] = "\n".join(self._thoughts)
        self._texts, self._thoughts = [], []


def _text(content: str | list[Part], where: str) -> str:
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for index, part in enumerate(content):
        here = f"{where}[{index}]"
        if part.type not in (*_TEXTS, "refusal"):
            check_supported(RESPONSES, "input[].content[].type", part.type, f"{here}.type")
        text = part.refusal if part.type == "refusal" else part.text
        if text is None:
            raise _missing(f"{here}.text")
        texts.append(text)
    return "\n".join(texts)


def _missing(param: str) -> ProblemError:
    return invalid(f"Missing required field {param!r}.", param)
