"""The layers around the router, pure ASGI, outermost first: `Edge` (identity, log line, metrics), CORS
(Starlette's), `Guard` (exceptions become answers), `AuthGate` (keys and tenants)."""

import re
import secrets
from collections.abc import Callable

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from refloat.api.auth import (
    KeyRing,
    given_key,
    is_local_caller,
    names_this_machine,
    tenant_of_address,
)
from refloat.api.body import drain_refused_body
from refloat.api.error_shapes import error_shape_of, speaks_anthropic
from refloat.api.errors import ClientGoneError, error_answer, internal_problem
from refloat.api.facts import Call, RequestFacts, attach, facts_of, header_of, send_answer
from refloat.api.grant import Grant
from refloat.observe.log import get_logger
from refloat.observe.metrics import Metrics
from refloat.wire.problem import Problem, ProblemError, ProblemKind

OPEN_PATHS = frozenset({"/v2/health/live", "/v2/health/ready"})
#: What only the operator may ask: with keys set, with a key; else from this machine alone.
ADMIN_PREFIX = "/admin/"
CLIENT_CLOSED_STATUS = 499
_PROXY_HEADERS = (b"forwarded", b"x-forwarded-for")

_log = get_logger(__name__)
_SANE_ID = re.compile(rb"[A-Za-z0-9._:/=+@-]{1,128}")
#: Polled all day; of no interest in a log unless somebody looks for it.
_QUIET = frozenset({*OPEN_PATHS, "/metrics", "/health"})


class Edge:
    """Gives each request its id, and tells its end once: in one log line and in the metrics."""

    def __init__(self, app: ASGIApp, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _refuse_other(scope, send)
            return
        started_s = self._clock()
        facts = RequestFacts(_request_id(scope))
        attach(scope, facts)
        request_id = facts.request_id.encode()
        id_headers = [(b"x-request-id", request_id)]
        if speaks_anthropic(scope["path"]):
            id_headers.append((b"request-id", request_id))  # where its SDKs look for it

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                facts.status = message["status"]
                message = {**message, "headers": [*message["headers"], *id_headers]}
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=facts.request_id):
            try:
                await self._app(scope, receive, send_marked)
            finally:
                self._tell(scope["method"], facts, self._clock() - started_s)

    def _tell(self, method: str, facts: RequestFacts, seconds: float) -> None:
        # no status: cancelled from outside (shutdown) before there was one
        status = facts.status or CLIENT_CLOSED_STATUS
        self._metrics.requests.labels(facts.route, str(status)).inc()
        self._metrics.request_seconds.labels(facts.route).observe(seconds)
        write = _log.debug if facts.route in _QUIET else _log.info
        write(
            "request",
            method=method,
            route=facts.route,
            status=status,
            duration_s=round(seconds, 6),
            tenant=facts.tenant,
            model=facts.model,
            aborted=facts.aborted,
        )


class Guard:
    """Turns whatever comes up into the error answer it stands for."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        facts = facts_of(scope)
        call = Call(scope, receive, send, facts)
        try:
            await self._app(scope, receive, send)
        except ClientGoneError:
            facts.aborted = True
            facts.status = facts.status or CLIENT_CLOSED_STATUS
        except ProblemError as error:
            await self._answer(call, error.problem, error)
        except Exception as error:  # noqa: BLE001  (the last resort; it logs the traceback)
            _log.error("unexpected exception", route=facts.route, exc_info=error)
            await self._answer(call, internal_problem(facts.request_id), error)

    async def _answer(self, call: Call, problem: Problem, error: Exception) -> None:
        if call.facts.status is not None:
            raise error  # an answer has begun: all that is left is to break the connection
        shape = error_shape_of(call.scope["path"])
        if problem.kind is not ProblemKind.REQUEST_TOO_LARGE:
            await send_answer(call.send, error_answer(problem, shape))
            return
        await send_answer(call.send, error_answer(problem, shape), complete=False)
        await drain_refused_body(call)
        await call.send({"type": "http.response.body", "body": b"", "more_body": False})


class AuthGate:
    """Asks for a key where keys are set, and says whose request this is."""

    def __init__(self, app: ASGIApp, keys: KeyRing) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        facts = facts_of(scope)
        if self._keys.is_open or scope["path"] in OPEN_PATHS:
            facts.tenant = tenant_of_address(scope)
            if scope["path"].startswith(ADMIN_PREFIX):
                _check_operator(scope)
        else:
            facts.tenant, facts.grant = self._holder(scope)
            if scope["path"].startswith(ADMIN_PREFIX) and not facts.grant.is_admin:
                message = "This key does not open the operator's routes."
                raise ProblemError.of(ProblemKind.FORBIDDEN, message)
        await self._app(scope, receive, send)

    def _holder(self, scope: Scope) -> tuple[str, Grant]:
        key = given_key(scope)
        if key is None:
            message = "No API key: send it as 'Authorization: Bearer KEY' or 'X-Api-Key: KEY'."
            raise ProblemError.of(ProblemKind.INVALID_API_KEY, message)
        holder = self._keys.holder_of(key)
        if holder is None:
            raise ProblemError.of(ProblemKind.INVALID_API_KEY, "This API key is not known here.")
        return holder


def _check_operator(scope: Scope) -> None:
    """Without keys the operator is whoever calls from this machine, but for a web page that a browser
    there happens to show (it names its origin, or calls the server by a name of its own that it made
    the browser take for this machine's), and for what a proxy passes on. Raises `ProblemError`."""
    is_passed_on = any(header_of(scope, name) is not None for name in _PROXY_HEADERS)
    if is_passed_on or not is_local_caller(scope):
        message = (
            "Without keys (api_key_file, keys) this route answers callers on this machine only."
        )
        raise ProblemError.of(ProblemKind.FORBIDDEN, message)
    if header_of(scope, b"origin") is not None or not names_this_machine(scope):
        message = (
            "Without keys (api_key_file, keys) this route answers this machine's callers only."
        )
        raise ProblemError.of(ProblemKind.FORBIDDEN, message)


def new_request_id() -> str:
    """An id for a request that brought none."""
    return f"req-{secrets.token_hex(12)}"


def _request_id(scope: Scope) -> str:
    given = header_of(scope, b"x-request-id")
    if given is not None and _SANE_ID.fullmatch(given):
        return given.decode()
    return new_request_id()


async def _refuse_other(scope: Scope, send: Send) -> None:
    """WebSockets are not spoken here; a lifespan has nothing to do."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1003})
