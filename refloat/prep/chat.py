"""A request's chat made into one prompt text: conversation → template → text. No tokens here."""

import re
from collections.abc import Sequence
from typing import Any

from refloat.prep.conversation import Message, merged, normalised, with_tools
from refloat.prep.template import ChatTemplate, RenderError, Rendering
from refloat.prep.traits import find_traits
from refloat.wire.prep_messages import Render
from refloat.wire.problem import ProblemError, ProblemKind

#: Stands at the end of a message that the model is to go on with. Its own trailing space shows
#: whether the template keeps white space there.
_CONTINUE = "CONTINUE_FINAL_MESSAGE_TAG "
_ABOUT_ORDER = re.compile(
    r"alternat|roles?\b|order|consecutive|system|user|assistant|first message|last message", re.I
)
#: Variables that are fields of their own in a request, or that the model's files define.
_RESERVED = frozenset(
    (
        "messages",
        "tools",
        "add_generation_prompt",
        "continue_final_message",
        "bos_token",
        "eos_token",
    )
)
#: What templates call the switch between thinking and not.
_THINKING_SWITCHES = ("enable_thinking", "thinking")


class ChatRenderer:
    """Renders chats by one model's template, whatever it wants of its messages."""

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template
        self.traits = find_traits(template)

    def render(self, job: Render) -> str:
        """The prompt's text. Raises `ProblemError`, always of a kind the caller can change."""
        more = dict(job.template_kwargs)
        for name in more:
            if name in _RESERVED:
                param = f"chat_template_kwargs.{name}"
                raise ProblemError.of(
                    ProblemKind.INVALID_REQUEST, f"{param} cannot be set this way", param=param
                )
        self._check_effort(more.get("reasoning_effort"))
        documents: Any = more.pop("documents", None)
        messages = normalised(job.messages, self.traits)
        if job.tools and self.traits.tools_in_system:
            messages = with_tools(messages, job.tools)
        if job.continue_final_message:
            messages = _to_be_continued(messages)
        rendering = Rendering(
            messages=messages,
            tools=job.tools or None,
            documents=documents,
            add_generation_prompt=job.add_generation_prompt and not job.continue_final_message,
        )
        text = self._rendered(rendering, more)
        return _cut(text) if job.continue_final_message else text

    def _check_effort(self, effort: Any) -> None:
        """Refuse an effort on which this template's prompt does not depend: that would be a lie."""
        mentions = self._template.mentions
        if effort is None or any(map(mentions, ("reasoning_effort", *_THINKING_SWITCHES))):
            return
        if effort == "none" and not mentions("<think>"):
            return
        text = f"reasoning_effort: this model's chat template has no use for {effort!r}."
        raise ProblemError.of(ProblemKind.UNSUPPORTED_VALUE, text, param="reasoning_effort")

    def _rendered(self, rendering: Rendering, more: dict[str, Any]) -> str:
        try:
            return self._template.render(rendering, more)
        except RenderError as error:
            problem = error
        joined = merged(rendering.messages) if _is_about_order(problem) else None
        if joined is not None:
            try:
                return self._template.render(rendering._replace(messages=joined), more)
            except RenderError as error:
                problem = error
        raise ProblemError.of(ProblemKind.INVALID_REQUEST, str(problem), param="messages")


def _is_about_order(error: RenderError) -> bool:
    return error.refused and _ABOUT_ORDER.search(str(error)) is not None


def _to_be_continued(messages: Sequence[Message]) -> list[Message]:
    """The last message's text with a mark behind it."""
    last = messages[-1] if messages else {}
    content = last.get("content")
    if last.get("role") != "assistant" or content is None:
        raise ProblemError.of(
            ProblemKind.INVALID_REQUEST,
            "continue_final_message needs an assistant message with text at the end",
            param="messages",
        )
    if isinstance(content, str):
        marked: Any = content + _CONTINUE
    else:
        texts = "".join(part["text"] for part in content)
        marked = [{"type": "text", "text": texts + _CONTINUE}]
    return [*messages[:-1], {**last, "content": marked}]


def _cut(text: str) -> str:
    """The rendered text up to the mark."""
    position = text.rfind(_CONTINUE.strip())
    if position < 0:
        raise ProblemError.of(
            ProblemKind.INVALID_REQUEST,
            "the chat template leaves out the last message, so it cannot be continued",
            param="continue_final_message",
        )
    before = text[:position]
    return before if text.startswith(_CONTINUE, position) else before.rstrip()
