"""Events in the form of `/responses`: numbered events, or one response; the end of either is stored."""

from datetime import UTC, datetime
from typing import Any, assert_never

import msgspec

from refloat.api.context import SessionPort
from refloat.api.encoder import WAITING, answer_id, named_sse
from refloat.api.errors import ROWS
from refloat.api.fold import Fold, FoldedCall, FoldedChoice, FoldedReasoning, FoldedText, Stretch
from refloat.api.responses.desk import ResponseDesk
from refloat.api.responses.told import Told
from refloat.api.schema.responses_answers import (
    CallItem,
    Incomplete,
    InputDetails,
    MessageItem,
    OutputDetails,
    OutputItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
    ResponseAnswer,
    ResponseEvent,
    ResponseFault,
    ResponseUsage,
)
from refloat.api.translate import Order
from refloat.generation.events import ChoiceEnd, Delta, FinishReason, Parsed, Usage
from refloat.generation.kept import Attendance
from refloat.generation.session import Session
from refloat.parsing.parts import CallArguments, CallBegin, CallEnd, Reasoning
from refloat.wire.problem import Problem, ProblemKind

_encode = msgspec.json.Encoder().encode

DONE, UNDER_WAY, CUT = "completed", "in_progress", "incomplete"


class ResponsesEncoder:
    """One response. Numbers its events and items, so it has to see every event."""

    done = b""
    waiting = WAITING

    def __init__(self, desk: ResponseDesk, session: SessionPort, order: Order) -> None:
        assert isinstance(order.told, Told)
        self.answer_id = answer_id("resp_", session.stream_id)
        self.tenant = session.request.tenant
        self.told = order.told
        self._desk = desk
        self._session = session
        self._kept = session.kept if isinstance(session, Attendance) else None
        self._choice = FoldedChoice()
        self._is_open = False
        self._sequence = 0
        desk.note(self)

    # --- the answer -------------------------------------------------------------------------------

    def whole(self, fold: Fold, usage: Usage) -> bytes:
        """One response."""
        [self._choice] = fold.choices
        return self._ended(usage)[1]

    def present(self) -> ResponseAnswer:
        """The response as it is now."""
        return self._answer(UNDER_WAY, self._items(UNDER_WAY))

    def cancel(self) -> ResponseAnswer | None:
        """End the generation; whoever reads it is told. `None`: it has ended, although that was not
        read yet."""
        session = self._session if self._kept is None else self._kept.session
        if session is None or (isinstance(session, Session) and session.terminal is not None):
            return None
        answer = self._answer("cancelled", self._items(CUT))
        self._store(answer)
        session.cancel()
        return answer

    def _ended(self, usage: Usage) -> tuple[ResponseAnswer, bytes]:
        is_cut = self._choice.reason is FinishReason.LENGTH
        answer = self._answer(CUT if is_cut else DONE, self._items(CUT if is_cut else DONE))
        answer.incomplete_details = Incomplete("max_output_tokens") if is_cut else None
        answer.completed_at = None if is_cut else int(datetime.now(UTC).timestamp())
        answer.usage = ResponseUsage(
            usage.prompt_tokens,
            InputDetails(usage.cached_tokens),
            usage.completion_tokens,
            OutputDetails(usage.reasoning_tokens),
            usage.prompt_tokens + usage.completion_tokens,
        )
        return answer, self._store(answer)

    def _store(self, answer: ResponseAnswer) -> bytes:
        body = _encode(answer)
        if self._kept is None:
            self._desk.put(self, answer, body)
        elif self._kept.is_stored:
            self._desk.forget(self)
        else:
            self._kept.is_stored = True
            self._desk.put(self, answer, body)
        return body

    def _answer(self, status: str, output: list[OutputItem]) -> ResponseAnswer:
        session = self._session
        return ResponseAnswer(
            id=self.answer_id,
            created_at=session.created,
            status=status,
            model=session.model,
            output=output,
            store=self._desk.keeps and self.told.store,
            **self.told.echo,
        )

    def _items(self, last: str) -> list[OutputItem]:
        stretches = self._choice.stretches
        end = len(stretches) - 1
        return [self._item(i, s, last if i == end else DONE) for i, s in enumerate(stretches)]

    def _item(self, index: int, stretch: Stretch, status: str) -> OutputItem:
        item_id = self._item_id(index, stretch)
        match stretch:
            case FoldedText():
                return MessageItem(item_id, status, [OutputText(stretch.text)])
            case FoldedReasoning():
                return ReasoningItem(item_id, status, [ReasoningText(stretch.text)])
            case FoldedCall():
                return CallItem(item_id, stretch.id, stretch.name, stretch.arguments, status)
            case _:
                assert_never(stretch)

    def _item_id(self, index: int, stretch: Stretch) -> str:
        """The same for everybody who reads the same generation."""
        match stretch:
            case FoldedText():
                prefix = "msg"
            case FoldedReasoning():
                prefix = "rs"
            case FoldedCall():
                prefix = "fc"
            case _:
                assert_never(stretch)
        return f"{prefix}_{self.answer_id.removeprefix('resp_')}{index:03d}"

    # --- the stream -------------------------------------------------------------------------------

    def opening(self) -> bytes:
        """The response before it has said anything."""
        return self._event("created", response=self.present()) + self._event(
            "in_progress", response=self.present()
        )

    def delta(self, event: Delta) -> bytes:
        """Text, in the message that is open or a new one."""
        if not event.text:
            return b""
        is_new = not self._is_in(FoldedText)
        out = self._end_item(DONE) if is_new else b""
        self._choice.say(event.text)
        if is_new:
            out += self._begin()
        return out + self._told("output_text.delta", content_index=0, delta=event.text, logprobs=[])

    def part(self, event: Parsed) -> bytes:
        """Reasoning, or something of a call."""
        part = event.part
        match part:
            case CallEnd():
                return self._end_item(DONE)
            case CallBegin():
                out = self._end_item(DONE)
                self._choice.add(part)
                return out + self._begin()
            case CallArguments(_, text):
                self._choice.add(part)
                return self._told("function_call_arguments.delta", delta=text)
            case Reasoning(text):
                is_new = not self._is_in(FoldedReasoning)
                if not text:
                    return b""
                out = self._end_item(DONE) if is_new else b""
                self._choice.add(part)
                out += self._begin() if is_new else b""
                return out + self._told("reasoning_text.delta", content_index=0, delta=text)
            case _:
                assert_never(part)

    def end(self, event: ChoiceEnd) -> bytes:
        """Ends the last item."""
        self._choice.reason = event.reason
        return self._end_item(CUT if event.reason is FinishReason.LENGTH else DONE)

    def closing(self, usage: Usage) -> bytes:
        """The whole response."""
        answer, _ = self._ended(usage)
        return self._event(answer.status, response=answer)

    def failure(self, problem: Problem) -> bytes:
        """The response as far as it came, and why it goes no further."""
        self._desk.forget(self)
        if problem.kind is ProblemKind.CLIENT_CLOSED:
            return self._event("failed", response=self._answer("cancelled", self._items(CUT)))
        answer = self._answer("failed", self._items(CUT))
        answer.error = ResponseFault(ROWS[problem.kind].code or "server_error", problem.message)
        return self._event("failed", response=answer)

    def _is_in(self, kind: type[Stretch]) -> bool:
        return self._is_open and isinstance(self._choice.stretches[-1], kind)

    def _begin(self) -> bytes:
        """The last stretch is new."""
        self._is_open = True
        index = len(self._choice.stretches) - 1
        stretch = self._choice.stretches[index]
        item_id = self._item_id(index, stretch)
        part: OutputText | ReasoningText | None = None
        item: OutputItem
        match stretch:
            case FoldedText():
                item, part = MessageItem(item_id, UNDER_WAY, []), OutputText("")
            case FoldedReasoning():
                item, part = ReasoningItem(item_id, UNDER_WAY, []), ReasoningText("")
            case FoldedCall(call_id, name):
                item = CallItem(item_id, call_id, name, "", UNDER_WAY)
            case _:
                assert_never(stretch)
        out = self._event("output_item.added", output_index=index, item=item)
        if part is not None:
            out += self._told("content_part.added", content_index=0, part=part)
        return out

    def _end_item(self, status: str) -> bytes:
        """The last stretch is whole, or as far as it came."""
        if not self._is_open:
            return b""
        self._is_open = False
        index = len(self._choice.stretches) - 1
        item = self._item(index, self._choice.stretches[index], status)
        match item:
            case MessageItem(content=[part]):
                out = self._told("output_text.done", content_index=0, text=part.text, logprobs=[])
                out += self._told("content_part.done", content_index=0, part=part)
            case ReasoningItem(content=[part]):
                out = self._told("reasoning_text.done", content_index=0, text=part.text)
                out += self._told("content_part.done", content_index=0, part=part)
            case CallItem(name=name, arguments=arguments):
                out = self._told("function_call_arguments.done", name=name, arguments=arguments)
            case _:
                out = b""
        return out + self._event("output_item.done", output_index=index, item=item)

    def _told(self, kind: str, /, **fields: Any) -> bytes:
        """An event of the last item."""
        index = len(self._choice.stretches) - 1
        item_id = self._item_id(index, self._choice.stretches[index])
        return self._event(kind, output_index=index, item_id=item_id, **fields)

    def _event(self, name: str, /, **fields: Any) -> bytes:
        kind, number = f"response.{name}", self._sequence
        self._sequence += 1
        return named_sse(kind, ResponseEvent(type=kind, sequence_number=number, **fields))
