"""A plain HTTP client for tests and drills: one connection a request, nothing hidden, no retries."""

import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Answer:
    """A whole HTTP answer."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    def json(self) -> Any:
        """The body as JSON. Raises `ValueError` if it is none."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The message of a chat answer, or the text of a completion (choice 0)."""
        choice = self.json()["choices"][0]
        return (choice["message"]["content"] or "") if "message" in choice else choice["text"]

    @property
    def calls(self) -> list[tuple[str, str]]:
        """(name, arguments) of the tool calls of choice 0."""
        calls = self.json()["choices"][0]["message"].get("tool_calls") or ()
        return [(call["function"]["name"], call["function"]["arguments"]) for call in calls]


@dataclass
class Transcript:
    """Everything a stream sent, folded as a client would."""

    events: list[Any] = field(default_factory=list[Any])
    error: dict[str, Any] | None = None
    done: bool = False
    """`[DONE]` was the last thing."""

    def add(self, payload: str) -> None:
        """The next payload of the stream."""
        self.done = payload == "[DONE]"
        if self.done:
            return
        event = json.loads(payload)
        if "error" in event:
            self.error = event["error"]
        else:
            self.events.append(event)

    def text(self, index: int = 0) -> str:
        """The joined text of one choice."""
        parts: list[str] = []
        for event in self.events:
            for choice in event.get("choices", ()):
                if choice["index"] == index:
                    delta = choice.get("delta", choice)
                    parts.append(delta.get("content") or delta.get("text") or "")
        return "".join(parts)

    def reasoning(self, index: int = 0) -> str:
        """The joined reasoning of one choice."""
        return "".join(delta.get("reasoning_content") or "" for delta in self._deltas(index))

    def calls(self, index: int = 0) -> list[tuple[str, str]]:
        """(name, arguments) of the tool calls of one choice."""
        found: dict[int, tuple[str, str]] = {}
        for delta in self._deltas(index):
            for call in delta.get("tool_calls") or ():
                name, arguments = found.get(call["index"], ("", ""))
                more = call.get("function", {})
                name += more.get("name") or ""
                found[call["index"]] = (name, arguments + (more.get("arguments") or ""))
        return [found[number] for number in sorted(found)]

    def _deltas(self, index: int) -> Iterator[dict[str, Any]]:
        for event in self.events:
            for choice in event.get("choices", ()):
                if choice["index"] == index:
                    yield choice.get("delta") or {}

    def finish_reasons(self) -> list[tuple[int, str]]:
        """(choice, reason) of every chunk that has one."""
        return [
            (choice["index"], choice["finish_reason"])
            for event in self.events
            for choice in event.get("choices", ())
            if choice.get("finish_reason")
        ]

    @property
    def usage(self) -> dict[str, Any] | None:
        """The usage chunk, if there was one."""
        found = [event["usage"] for event in self.events if event.get("usage")]
        return found[-1] if found else None


class EventStream:
    """An SSE answer being read; closing it early is a client that leaves."""

    def __init__(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse):
        self._connection = connection
        self._answer = answer
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.getheaders()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave, whatever the server is doing."""
        self._answer.close()
        self._connection.close()

    def body(self) -> bytes:
        """All that is left, unparsed (an error answer)."""
        return self._answer.read()

    def data(self) -> Iterator[str]:
        """The payload of each `data:` line as it comes; comments are skipped."""
        for line in self._answer:
            text = line.decode().rstrip("\r\n")
            if text.startswith("data: "):
                yield text[6:]

    def transcript(self) -> Transcript:
        """Read to the end."""
        transcript = Transcript()
        for payload in self.data():
            transcript.add(payload)
        return transcript


class Client:
    """Speaks to one server. `timeout_s` bounds every single socket operation."""

    def __init__(self, url: str, *, api_key: str | None = None, timeout_s: float = 60.0) -> None:
        parts = urlsplit(url)
        self._connect = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port
        self._timeout_s = timeout_s
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def get(self, path: str) -> Answer:
        """GET, whole."""
        return self.request("GET", path)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        """POST a JSON value (or raw bytes), whole."""
        return self.request("POST", path, body, headers)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Any method; the connection is closed afterwards."""
        connection, answer = self._send(method, path, body, headers or {})
        try:
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, names, answer.read())
        finally:
            connection.close()

    def stream(self, path: str, body: Any, **headers: str) -> EventStream:
        """POST and read the answer as it comes."""
        connection, answer = self._send("POST", path, body, headers)
        return EventStream(connection, answer)

    def begin(self, path: str, body: Any, **headers: str) -> http.client.HTTPConnection:
        """POST without waiting for the answer. Closing the connection is a client that leaves."""
        return self._request("POST", path, body, headers)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels; 0 if there are none."""
        return self.metrics(name, **labels)[name]

    def metrics(self, *names: str, **labels: str) -> dict[str, float]:
        """As `metric`, for several at the same moment."""
        lines = self.get("/metrics").body.decode().splitlines(keepends=True)
        # Only what is asked for is parsed, since tests ask again and again.
        text = "".join(line for line in lines if line.startswith(names))
        sums = dict.fromkeys(names, 0.0)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in sums and labels.items() <= sample.labels.items():
                    sums[sample.name] += sample.value
        return sums

    def chat(self, content: str, **fields: Any) -> Answer:
        """One user message, whole answer. `model` defaults to the only one served."""
        return self.post("/v1/chat/completions", self.chat_body(content, **fields))

    def chat_stream(self, content: str, **fields: Any) -> EventStream:
        """One user message, streamed."""
        body = self.chat_body(content, stream=True, **fields)
        return self.stream("/v1/chat/completions", body)

    def chat_body(self, content: str, **fields: Any) -> dict[str, Any]:
        """The body that `chat` sends."""
        fields.setdefault("model", self.model)
        fields.setdefault("temperature", 0)
        return {"messages": [{"role": "user", "content": content}], **fields}

    @property
    def model(self) -> str:
        """Name of the first model served."""
        name: str = self.get("/v1/models").json()["data"][0]["id"]
        return name

    def _send(
        self, method: str, path: str, body: Any, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = self._request(method, path, body, headers)
        try:
            return connection, connection.getresponse()
        except BaseException:
            connection.close()
            raise

    def _request(
        self, method: str, path: str, body: Any, headers: Mapping[str, str]
    ) -> http.client.HTTPConnection:
        connection = self._connect(self._host, self._port, timeout=self._timeout_s)
        sent = {**self._headers, **{k.replace("_", "-"): v for k, v in headers.items()}}
        payload: bytes | None = None
        if body is not None:
            payload = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection.request(method, path, payload, sent)
        return connection
