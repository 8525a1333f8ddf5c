"""Puts the layers together: one ASGI application for one gateway."""

from collections import defaultdict

from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from refloat.api.auth import KeyRing
from refloat.api.context import ApiContext
from refloat.api.error_shapes import error_shape_of
from refloat.api.errors import Answer, ErrorShape, encode_json, error_answer
from refloat.api.facts import Call, facts_of, send_answer
from refloat.api.middleware import OPEN_PATHS, AuthGate, Edge, Guard
from refloat.api.openapi import openapi_document
from refloat.api.routes import Handler, Operation, operations
from refloat.wire.problem import Problem, ProblemError, ProblemKind


class Endpoint:
    """All methods of one path."""

    def __init__(self, path: str, handlers: dict[str, Handler]) -> None:
        self._path = path
        self._handlers = handlers
        methods = {*handlers, "HEAD"} if "GET" in handlers else set(handlers)
        self._allow = ", ".join(sorted(methods))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        facts = facts_of(scope)
        facts.route = self._path
        method = scope["method"]
        handler = self._handlers.get("GET" if method == "HEAD" else method)
        if handler is None:
            await send_answer(send, self._not_allowed(method, error_shape_of(scope["path"])))
            return
        answer = await handler(Call(scope, receive, send, facts))
        if answer is not None:
            await send_answer(send, answer)

    def _not_allowed(self, method: str, shape: ErrorShape) -> Answer:
        message = f"This route does not take {method[:32]}; it takes {self._allow}."
        answer = error_answer(Problem(ProblemKind.METHOD_NOT_ALLOWED, message), shape)
        answer.headers.append((b"allow", self._allow.encode()))
        return answer


def build_asgi(context: ApiContext) -> ASGIApp:
    """The application. What `context` holds is used, never owned."""
    keys = KeyRing(context.keys, context.rights)
    document: bytes = b""

    async def openapi(call: Call) -> Answer:
        return Answer(document)

    found = operations(context, openapi)
    document = encode_json(
        openapi_document(
            found, version=context.version, needs_key=not keys.is_open, open_paths=OPEN_PATHS
        )
    )
    router = Router(_routes(found), redirect_slashes=False, default=_not_found)
    app: ASGIApp = Guard(AuthGate(router, keys))
    if context.settings.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=context.settings.cors_origins,
            allow_methods=["DELETE", "GET", "HEAD", "POST"],
            allow_headers=["*"],
            expose_headers=["X-Request-Id", "Retry-After", "X-Should-Retry"],
        )
    return Edge(app, context.metrics, context.clock)


def _routes(found: list[Operation]) -> list[BaseRoute]:
    by_path: defaultdict[str, dict[str, Handler]] = defaultdict(dict)
    for operation in found:
        by_path[operation.path][operation.method] = operation.handler
    return [Route(path, Endpoint(path, handlers)) for path, handlers in by_path.items()]


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    message = "There is no such route; GET /openapi.json lists those there are."
    raise ProblemError.of(ProblemKind.NOT_FOUND, message)
