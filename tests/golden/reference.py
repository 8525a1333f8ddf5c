# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
"""`transformers` as the reference. Only the long tests have it installed."""

import copy
from typing import Any

from transformers.utils import chat_template_utils as reference_module

from tests.golden.conversations import Chat, Message
from tests.golden.rendering import SPECIAL, adapted

REFERENCE_MODULE: Any = reference_module


def reference(name: str, text: str, chat: Chat) -> str | None:
    """What `transformers` makes of it; `None`: it raises."""
    messages = adapted(name, text, chat)
    rendered = _rendered(text, chat, messages)
    if rendered is None and any("content" not in message for message in messages):
        # A template that adds texts up cannot bear that one is missing.
        rendered = _rendered(text, chat, [{"content": "", **message} for message in messages])
    return rendered


def _rendered(text: str, chat: Chat, messages: list[Message]) -> str | None:
    try:
        texts, _ = REFERENCE_MODULE.render_jinja_template(
            [copy.deepcopy(messages)],
            tools=chat.tools,
            chat_template=text,
            continue_final_message=chat.continued,
            add_generation_prompt=not chat.continued,
            **{**SPECIAL, **chat.kwargs},
        )
    except Exception:  # noqa: BLE001 # whatever a template can raise, which is compared
        return None
    return texts[0]
