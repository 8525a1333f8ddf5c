"""One request, asked and judged as its client sees it: whole, cut short, refused, or never answered.

A test or a drill that compares answers wants no exception for a dead server, but a value that says so.
"""

import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from refloat.testing.client import Answer, Client, EventStream

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"

#: What `Outcome.status` says where no status line ever came.
NO_ANSWER = 0


@dataclass(frozen=True)
class Outcome:
    """How a request ended. `texts` and `finish_reasons` are by choice."""

    status: int
    """`NO_ANSWER`: the connection failed or fell silent."""
    texts: Mapping[int, str] = field(default_factory=dict[int, str])
    finish_reasons: Mapping[int, str] = field(default_factory=dict[int, str])
    error: Mapping[str, Any] | None = None
    """The error object, before or in the answer; of a broken connection one with type `transport`."""
    usage: Mapping[str, Any] | None = None
    is_whole: bool = False
    """It ended as an answer has to: one finish reason a choice, then, if it is a stream, `[DONE]`."""
    request_id: str = ""
    retry_after: str | None = None
    first_text_s: float | None = None
    """From sending to the first text (streams only)."""
    longest_gap_s: float = 0.0
    """The longest wait between two events, from the first with text to the end."""
    wall_s: float = 0.0

    @property
    def text(self) -> str:
        """The text of choice 0."""
        return self.texts.get(0, "")

    @property
    def is_right(self) -> bool:
        """Answered, whole and without an error. Whether the text is right is for others to say."""
        return self.status == 200 and self.is_whole and self.error is None

    def describe(self) -> str:
        """One line for people."""
        if self.is_right:
            return f"200, {len(self.text)} characters, {self.finish_reasons}"
        why = "" if self.error is None else f", {self.error.get('message')}"
        return f"{self.status or 'no answer'}{'' if self.is_whole else ', not whole'}{why}"


def ask(
    client: Client,
    body: Mapping[str, Any],
    path: str = CHAT,
    *,
    cap_s: float | None = None,
    on_text: Callable[[], None] | None = None,
) -> Outcome:
    """Send a body, streamed if it says so, and read the answer to its end. Never raises for what
    the server does. A stream that lasts longer than `cap_s` is given up; `on_text` is called for
    each of its events with text."""
    reading = _Reading(cap_s, on_text)
    try:
        if body.get("stream"):
            with client.stream(path, body) as stream:
                return reading.stream(stream)
        return reading.answer(client.post(path, body))
    except (OSError, http.client.HTTPException, ValueError) as error:
        return reading.broken(error)


class _Reading:
    """Folds one answer."""

    def __init__(self, cap_s: float | None, on_text: Callable[[], None] | None) -> None:
        self._began_s = time.monotonic()
        self._cap_s = cap_s
        self._on_text = on_text
        self._status = NO_ANSWER
        self._headers: Mapping[str, str] = {}
        self._texts: dict[int, str] = {}
        self._finishes: list[tuple[int, str]] = []
        self._error: dict[str, Any] | None = None
        self._usage: dict[str, Any] | None = None
        self._last_event_s: float | None = None
        self._first_text_s: float | None = None
        self._longest_gap_s = 0.0

    def answer(self, answer: Answer) -> Outcome:
        """A whole body."""
        self._status, self._headers = answer.status, answer.headers
        value = answer.json()
        if answer.status == 200:
            self._take(value)
            self._first_text_s = None  # it came with all the rest
        else:
            self._error = value["error"]
        return self._outcome(has_ended=True)

    def stream(self, stream: EventStream) -> Outcome:
        """An event stream, or the refusal in its place."""
        self._status, self._headers = stream.status, stream.headers
        if stream.status != 200:
            self._error = json.loads(stream.body())["error"]
            return self._outcome(has_ended=True)
        ends = 0
        after_end = False
        for payload in stream.data():
            if self._cap_s is not None and time.monotonic() - self._began_s > self._cap_s:
                raise TimeoutError(f"not ended after {self._cap_s:g} s")
            after_end = after_end or ends > 0
            if payload == "[DONE]":
                ends += 1
            else:
                self._take(json.loads(payload))
        return self._outcome(has_ended=ends == 1 and not after_end)

    def broken(self, error: Exception) -> Outcome:
        """The connection ended in the middle, or what came was no answer."""
        message = f"{type(error).__name__}: {error}"
        self._error = {"message": message, "type": "transport", "code": None}
        return self._outcome(has_ended=False)

    def _take(self, event: dict[str, Any]) -> None:
        if "error" in event:
            self._error = event["error"]
            return
        if event.get("usage"):
            self._usage = event["usage"]
        for index, text, reason in _choices(event):
            if text:
                self._texts[index] = self._texts.get(index, "") + text
                if self._on_text is not None:
                    self._on_text()
            if reason:
                self._finishes.append((index, reason))
            if text or reason:
                self._note_time(is_text=bool(text))

    def _note_time(self, *, is_text: bool) -> None:
        now_s = time.monotonic()
        if self._last_event_s is not None:
            self._longest_gap_s = max(self._longest_gap_s, now_s - self._last_event_s)
            self._last_event_s = now_s
        elif is_text:
            self._first_text_s = now_s - self._began_s
            self._last_event_s = now_s

    def _outcome(self, *, has_ended: bool) -> Outcome:
        reasons = dict(self._finishes)
        is_once = len(reasons) == len(self._finishes) and reasons.keys() >= self._texts.keys()
        is_finished = is_once and bool(reasons)
        return Outcome(
            status=self._status,
            texts=self._texts,
            finish_reasons=reasons,
            error=self._error,
            usage=self._usage,
            is_whole=has_ended and (is_finished or self._error is not None),
            request_id=self._headers.get("x-request-id", ""),
            retry_after=self._headers.get("retry-after"),
            first_text_s=self._first_text_s,
            longest_gap_s=self._longest_gap_s,
            wall_s=time.monotonic() - self._began_s,
        )


def _choices(event: Mapping[str, Any]) -> Iterator[tuple[int, str, str | None]]:
    """(index, text, finish reason) of every choice, of a chunk or a whole answer alike."""
    for choice in event.get("choices", ()):
        said = choice.get("delta") or choice.get("message") or choice
        yield choice["index"], _said(said), choice.get("finish_reason")


def _said(said: Mapping[str, Any]) -> str:
    """All that a delta or a message says: reasoning, text, and calls by name and arguments. Joined
    deltas say what the message says, whichever the parts are."""
    calls: list[dict[str, Any]] = said.get("tool_calls") or []
    functions: list[dict[str, Any]] = [call.get("function", {}) for call in calls]
    parts = [said.get("reasoning_content"), said.get("content") or said.get("text")]
    parts += [function.get(key) for function in functions for key in ("name", "arguments")]
    return "".join(part for part in parts if part)
