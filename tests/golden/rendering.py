"""One real template and one chat, rendered by us and by `transformers`, on the same day."""

import copy
import hashlib
import json
from datetime import datetime
from typing import Any, Self, cast

import pytest

from refloat.prep import environment
from refloat.prep.chat import ChatRenderer
from refloat.prep.sources import TemplateSource
from refloat.prep.template import ChatTemplate
from refloat.wire.prep_messages import Render
from refloat.wire.problem import ProblemError
from tests.golden.conversations import Chat, Message

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
#: Stands for a text where the chat is refused.
REFUSED = "------"

#: What these templates want of messages, by reading them; all others take what OpenAI's clients
#: send with arguments as a mapping.
ARGUMENTS_AS_TEXT = frozenset(
    ("deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja", "meetkai-functionary-medium-v3.2.jinja")
)
#: Which texts beside calls these want as null; others want them left out, or empty.
NULL_BESIDE_CALLS: dict[str, tuple[str | None, ...]] = {
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja": (None, ""),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja": (None,),
}
#: They speak of a developer, but refuse messages of one or leave them out.
NO_DEVELOPER = frozenset(
    (
        "Apertus-8B-Instruct.jinja",
        "Cohere2MoE.jinja",
        "CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja",
        "deepseek-ai-DeepSeek-V3.2.jinja",
    )
)


class _FixedDay(datetime):
    """Templates tell their models the date."""

    @classmethod
    def now(cls, tz: Any = None) -> Self:
        return cls(2026, 3, 14, 15, 9, 26, tzinfo=tz)


def fix_the_day(patch: pytest.MonkeyPatch, *more: Any) -> None:
    """From now on, templates see one date, ours and those of `more` modules."""
    for module in (environment, *more):
        patch.setattr(module, "datetime", _FixedDay)


def digest(text: str) -> str:
    """Few characters are enough: they have to differ by chance from one other text."""
    return hashlib.sha256(text.encode()).hexdigest()[: len(REFUSED)]


class Ours:
    """A template in our renderer."""

    def __init__(self, text: str) -> None:
        source = TemplateSource("test", text)
        self._renderer = ChatRenderer(ChatTemplate(source, SPECIAL, limit_s=10.0))

    def render(self, chat: Chat) -> str | None:
        """`None`: refused, as a request that its sender has to change."""
        kwargs = dict(chat.kwargs)
        job = Render(1, chat.messages, chat.tools, kwargs, continue_final_message=chat.continued)
        try:
            return self._renderer.render(copy.deepcopy(job))
        except ProblemError:
            return None


def refuses_effort(text: str, chat: Chat) -> bool:
    """We refuse an effort of which a template makes nothing; `transformers` drops it."""
    words = ("reasoning_effort", "enable_thinking", "thinking")
    return "reasoning_effort" in chat.kwargs and not any(word in text for word in words)


def adapted(name: str, text: str, chat: Chat) -> list[Message]:
    """A chat as somebody who has read the template would hand it to `transformers`."""
    messages = copy.deepcopy(chat.messages)
    for message in messages:
        if message["role"] == "developer" and ("developer" not in text or name in NO_DEVELOPER):
            message["role"] = "system"
        if isinstance(message["content"], list):
            parts = cast("list[dict[str, str]]", message["content"])
            message["content"] = "\n".join(part["text"] for part in parts)
        calls = message.get("tool_calls", ())
        for call in calls if name not in ARGUMENTS_AS_TEXT else ():
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        if calls and message["content"] in NULL_BESIDE_CALLS.get(name, ()):
            message["content"] = None
        elif message["content"] is None:
            del message["content"]
    return messages
