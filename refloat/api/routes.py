"""Every route, once: path, method, handler, and what it takes and gives. The router and
`/openapi.json` are both made from this list."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from refloat.api.admin import Admin
from refloat.api.context import ApiContext
from refloat.api.errors import Answer
from refloat.api.facts import Call
from refloat.api.generate import (
    CHAT_DIALECT,
    COMPLETION_DIALECT,
    MESSAGES_DIALECT,
    Generate,
    responses_dialect,
)
from refloat.api.health import Health
from refloat.api.incidents import IncidentList, Incidents
from refloat.api.messages import MessageCounter
from refloat.api.models import Models
from refloat.api.responses.desk import ResponseDesk
from refloat.api.responses.routes import ResponseRoutes
from refloat.api.schema.admin import DrainAnswer, DrainBody, ResetAnswer, ResetBody
from refloat.api.schema.answers import (
    ChatChunk,
    ChatCompletion,
    Completion,
    DetokenizeAnswer,
    ErrorBody,
    ModelCard,
    ModelList,
    TokenizeAnswer,
)
from refloat.api.schema.anthropic import CountBody, MessagesBody
from refloat.api.schema.anthropic_answers import (
    AnthropicErrorBody,
    MessageAnswer,
    MessageEvent,
    TokenCount,
)
from refloat.api.schema.chat import ChatBody
from refloat.api.schema.completions import CompletionBody
from refloat.api.schema.responses import ResponsesBody
from refloat.api.schema.responses_answers import ResponseAnswer, ResponseDeleted, ResponseEvent
from refloat.api.schema.tokens import DetokenizeBody, TokenizeBody
from refloat.api.streams import StreamRoutes
from refloat.api.tokens import Tokens
from refloat.observe.incident_record import Incident
from refloat.wire.problem import ProblemError, ProblemKind

#: The same routes under OpenAI's prefix and OpenVINO Model Server's.
PREFIXES = ("/v1", "/v3")

Handler = Callable[[Call], Awaitable[Answer | None]]


class Operation(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    """Starlette's template."""
    handler: Handler
    summary: str
    takes: type[msgspec.Struct] | None = None
    gives: Any = None
    streams: Any = None
    """What each event of a stream holds."""
    fails: type[msgspec.Struct] = ErrorBody
    media_type: str = "application/json"


def operations(context: ApiContext, openapi: Handler) -> list[Operation]:
    """All of them. The first that matches a path is taken, so the longer ones come first."""
    health, desk = Health(context), ResponseDesk(context.responses)
    found = [operation for prefix in PREFIXES for operation in _under(prefix, context, health)]
    found += [operation for prefix in PREFIXES for operation in _responses(prefix, context, desk)]
    any_object = dict[str, Any]
    return [
        *found,
        Operation("GET", "/v2/health/live", health.live, "The gateway is alive", gives=any_object),
        Operation(
            "GET", "/v2/health/ready", health.ready, "Requests would be served", gives=any_object
        ),
        Operation(
            "GET",
            "/v2/models/{model:path}/ready",
            health.model_ready,
            "This model would serve a request",
            gives=any_object,
        ),
        Operation(
            "GET", "/v2/models/{model:path}", health.model, "A model, for KServe", gives=any_object
        ),
        *_for_operators(context),
        Operation("GET", "/health", health.summary, "Everything at a glance", gives=any_object),
        Operation(
            "GET",
            "/metrics",
            _metrics_handler(context),
            "Prometheus metrics",
            gives=str,
            media_type="text/plain",
        ),
        Operation(
            "GET", "/openapi.json", openapi, "These routes in OpenAPI's form", gives=any_object
        ),
    ]


def _for_operators(context: ApiContext) -> list[Operation]:
    admin, incidents = Admin(context), Incidents(context)
    return [
        Operation(
            "POST",
            "/admin/models/{model:path}/reset",
            admin.reset,
            "Try a failed model again, now",
            takes=ResetBody,
            gives=ResetAnswer,
        ),
        Operation(
            "POST",
            "/admin/drain",
            admin.drain,
            "Finish what runs, take nothing new, and end",
            takes=DrainBody,
            gives=DrainAnswer,
        ),
        Operation(
            "GET",
            "/admin/incidents",
            incidents.list,
            "Faults on record, newest first",
            gives=IncidentList,
        ),
        Operation(
            "GET",
            "/admin/incidents/{incident}",
            incidents.get,
            "One fault: cause, evidence, actions, outcomes",
            gives=Incident,
        ),
    ]


def _under(prefix: str, context: ApiContext, health: Health) -> list[Operation]:
    models, tokens = Models(context), Tokens(context)
    chat = Generate(context, CHAT_DIALECT)
    completions = Generate(context, COMPLETION_DIALECT)
    return [
        Operation(
            "POST",
            f"{prefix}/chat/completions",
            chat,
            "Answer a chat",
            takes=ChatBody,
            gives=ChatCompletion,
            streams=ChatChunk,
        ),
        Operation(
            "POST",
            f"{prefix}/completions",
            completions,
            "Continue a text",
            takes=CompletionBody,
            gives=Completion,
            streams=Completion,
        ),
        *_messages(prefix, context),
        Operation(
            "GET",
            f"{prefix}/streams/{{stream}}",
            StreamRoutes(context).resume,
            "A kept stream once more, from any event on",
            gives=str,
            media_type="text/event-stream",
        ),
        Operation("GET", f"{prefix}/models", models.list, "Models served", gives=ModelList),
        Operation("GET", f"{prefix}/models/{{model:path}}", models.get, "A model", gives=ModelCard),
        Operation(
            "POST",
            f"{prefix}/tokenize",
            tokens.tokenize,
            "Token ids of a text or a chat",
            takes=TokenizeBody,
            gives=TokenizeAnswer,
        ),
        Operation(
            "POST",
            f"{prefix}/detokenize",
            tokens.detokenize,
            "Text of token ids",
            takes=DetokenizeBody,
            gives=DetokenizeAnswer,
        ),
        Operation(
            "GET",
            f"{prefix}/config",
            health.config,
            "States in OpenVINO Model Server's form",
            gives=dict[str, Any],
        ),
    ]


def _messages(prefix: str, context: ApiContext) -> list[Operation]:
    return [
        Operation(
            "POST",
            f"{prefix}/messages",
            Generate(context, MESSAGES_DIALECT),
            "Answer a chat, in Anthropic's form",
            takes=MessagesBody,
            gives=MessageAnswer,
            streams=MessageEvent,
            fails=AnthropicErrorBody,
        ),
        Operation(
            "POST",
            f"{prefix}/messages/count_tokens",
            MessageCounter(context).count,
            "Tokens of a chat, in Anthropic's form",
            takes=CountBody,
            gives=TokenCount,
            fails=AnthropicErrorBody,
        ),
    ]


def _responses(prefix: str, context: ApiContext, desk: ResponseDesk) -> list[Operation]:
    routes, path = ResponseRoutes(context, desk), f"{prefix}/responses"
    one = f"{path}/{{response}}"
    return [
        Operation(
            "POST",
            path,
            Generate(context, responses_dialect(desk)),
            "Answer items with items",
            takes=ResponsesBody,
            gives=ResponseAnswer,
            streams=ResponseEvent,
        ),
        Operation("GET", one, routes.retrieve, "A response once more", gives=ResponseAnswer),
        Operation("DELETE", one, routes.delete, "Forget a response", gives=ResponseDeleted),
        Operation(
            "POST",
            f"{one}/cancel",
            routes.cancel,
            "Stop a response that is under way",
            gives=ResponseAnswer,
        ),
    ]


def _metrics_handler(context: ApiContext) -> Handler:
    content_type = b"text/plain; version=0.0.4; charset=utf-8"

    async def metrics(call: Call) -> Answer:
        if not context.settings.metrics:
            message = "Metrics are switched off (setting server.metrics)."
            raise ProblemError.of(ProblemKind.NOT_FOUND, message)
        parts: list[bytes] = []
        for part in context.metrics.parts():
            parts.append(part)
            await asyncio.sleep(0)
        return Answer(b"".join(parts), headers=[(b"content-type", content_type)])

    return metrics
