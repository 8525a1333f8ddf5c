"""The generated parts of docs/API.md."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, get_args

import msgspec
from docs_tables import code, member_docs, members, table

from refloat.api import body, protocol, server
from refloat.api.context import ApiContext
from refloat.api.errors import RETRY_AFTER_MAX_S, ROWS, Retry
from refloat.api.middleware import OPEN_PATHS
from refloat.api.routes import PREFIXES, operations
from refloat.api.schema import chat, checks, decode, messages, tokens, tools
from refloat.api.schema.unsupported import HINTS, UNSUPPORTED
from refloat.cli.exit_codes import ExitCode
from refloat.config.fields import MODEL_FIELDS, SERVER_FIELDS, Field
from refloat.config.schema import ModelConfig, ServerConfig
from refloat.engines.scripted import ScriptedOptions
from refloat.faults.plan import FaultAct, FaultAt, FaultEntry
from refloat.generation.budget import ByteBudget
from refloat.generation.limits import Limits
from refloat.generation.orphans import MAX_ORPHANS
from refloat.observe.metrics import Metrics
from refloat.prep.template import MAX_RENDERED_CHARS
from refloat.scripted.script import Rule
from refloat.supervisor.fleet import Fleet
from refloat.supervisor.knobs import Knobs
from refloat.wire.prep_messages import PrepConfigure
from refloat.wire.problem import ProblemKind


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _default(value: object) -> str:
    if value is msgspec.NODEFAULT:
        return "required"
    if isinstance(value, float):
        return code(f"{value:g}")
    return (
        "–" if value in (None, {}, [], ()) else code(msgspec.json.encode(value).decode().strip('"'))
    )


def routes() -> str:
    async def nothing(_: Any) -> None:
        """Stands for the handler of `/openapi.json`."""

    unused: Any = None
    context = ApiContext(unused, Fleet(), Metrics(), ByteBudget(1), ServerConfig())
    paths: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for operation in operations(context, nothing):
        path = operation.path.replace(":path", "")
        short = path.removeprefix(next((p for p in PREFIXES if path.startswith(p)), ""))
        paths[operation.method, short, operation.summary].append(path)
    rows = [
        [method, ", ".join(map(code, all_of)), summary, "no" if all_of[0] in OPEN_PATHS else "yes"]
        for (method, _, summary), all_of in paths.items()
    ]
    return table(["method", "path", "what", "asks for a key"], rows)


def unsupported() -> str:
    rows = [
        [
            code(row.field),
            ", ".join(row.routes),
            ", ".join(["null", *(code(msgspec.json.encode(v).decode()) for v in row.neutral)]),
            row.says,
        ]
        for row in UNSUPPORTED
    ]
    return table(["field", "route", "values that pass", "what is not there yet"], rows)


def hints() -> str:
    return table(["field", "effect"], [[code(field), says] for field, says in HINTS.items()])


def errors() -> str:
    docs = member_docs(ProblemKind)
    rows: list[list[str]] = []
    for kind, row in sorted(ROWS.items(), key=lambda item: item[1].status):
        retry = code(row.retry.value) if row.retry is not Retry.UNSAID else "–"
        rows.append(
            [
                str(row.status),
                code(row.type),
                code(row.anthropic_type),
                code(row.code) if row.code else "null",
                retry,
                "yes" if row.retry is Retry.LATER else "–",
                docs[kind.name] + (" The connection is closed." if row.close else ""),
            ]
        )
    head = [
        "status",
        "`type`",
        "Anthropic's",
        "`code`",
        "`x-should-retry`",
        "`Retry-After`",
        "when",
    ]
    return table(head, rows)


def metrics() -> str:
    rows: list[list[str]] = []
    for metric in vars(Metrics()).values():
        if not hasattr(metric, "describe"):
            continue
        [family] = metric.describe()
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = ", ".join(map(code, metric._labelnames)) or "–"
        rows.append([code(name), family.type, labels, family.documentation])
    return table(["metric", "type", "labels", "what"], rows)


def _settings(fields: Mapping[str, Field]) -> str:
    rows = [
        [code(f.key), f.expected, _default(f.default), f.description + "."] for f in fields.values()
    ]
    return table(["setting", "value", "default", "meaning"], rows)


def limits() -> str:
    settings, of_model, knobs, queue = ServerConfig(), ModelConfig(""), Knobs(), Limits()
    render_s = PrepConfigure(1, "", "").render_limit_s
    rows: list[tuple[str, float | str, str]] = [
        ("bytes of request line and headers", protocol.MAX_HEAD_BYTES, "431"),
        ("seconds until the headers are there", protocol.HEAD_DEADLINE_S, "400"),
        ("bytes of a body (`max_body_bytes`)", settings.max_body_bytes, "413"),
        ("seconds until the body is there", body.BODY_DEADLINE_S, "400"),
        ("bytes held in all (`memory_budget_bytes`)", settings.memory_budget_bytes, "503"),
        ("`messages`", messages.MAX_MESSAGES, "400"),
        ("`tools`", tools.MAX_TOOLS, "400"),
        ("characters of a tool's name", tools.MAX_TOOL_NAME_CHARS, "400"),
        ("entries of `chat_template_kwargs`", chat.MAX_TEMPLATE_KWARGS, "400"),
        ("levels of tools, arguments, template arguments", decode.MAX_NESTING, "400"),
        ("`n`, `best_of`", checks.MAX_CHOICES, "400"),
        ("prompts in a list", checks.MAX_PROMPTS, "400"),
        ("prompts times `n` or `best_of`", checks.MAX_GENERATIONS, "400"),
        ("`stop` strings", checks.MAX_STOP_STRINGS, "400"),
        ("characters of a `stop` string", checks.MAX_STOP_CHARS, "400"),
        ("`stop_token_ids`", checks.MAX_STOP_TOKEN_IDS, "400"),
        ("entries of `metadata`", checks.MAX_METADATA, "400"),
        ("characters of its keys", checks.MAX_METADATA_KEY_CHARS, "400"),
        ("characters of its values", checks.MAX_METADATA_VALUE_CHARS, "400"),
        (
            "characters of `user`, `prompt_cache_key`, `safety_identifier`",
            checks.MAX_LABEL_CHARS,
            "400",
        ),
        ("`tokens` to detokenize", tokens.MAX_DETOKENIZE, "400"),
        ("seconds of rendering a chat", render_s, "400"),
        ("characters of a rendered chat", MAX_RENDERED_CHARS, "400"),
        ("seconds for rendering and tokenizing, queue included", knobs.prep_wait_limit_s, "503"),
        ("generations that wait for a model (`max_queue`)", of_model.max_queue, "429"),
        ("tokens that the waiting ones ask for", queue.max_queued_tokens, "429"),
        ("bytes that the waiting ones hold", queue.max_queued_bytes, "429"),
        (
            "seconds that requests wait for a model (`hold_timeout_s`)",
            settings.hold_timeout_s,
            "503",
        ),
        ("tries of a generation without a new token", queue.max_resumes, "500"),
        (
            f"convicted requests of a tenant in {queue.conviction_window_s:g} seconds",
            queue.max_convictions - 1,
            "429",
        ),
        (
            "seconds of a client that takes nothing (`slow_reader_timeout_s`)",
            settings.slow_reader_timeout_s,
            "it counts as gone",
        ),
        (
            "bytes that a client is behind (`stream_buffer_bytes`)",
            settings.stream_buffer_bytes,
            "it counts as gone",
        ),
        ("answers of a tenant that go on for who may come back", MAX_ORPHANS, "they are stopped"),
        ("seconds of an idle connection", server.KEEP_ALIVE_S, "it is closed"),
        ("seconds in `Retry-After`", RETRY_AFTER_MAX_S, "never more"),
    ]
    return table(["what", "at most", "beyond it"], [[a, _number(b), c] for a, b, c in rows])  # type: ignore[arg-type]


def exit_codes() -> str:
    docs = {"OK": "Served and drained, or done.", **member_docs(ExitCode)}
    return table(["code", "why"], [[str(c.value), docs[c.name]] for c in ExitCode])


def _struct_fields(kind: type[msgspec.Struct]) -> str:
    docs = member_docs(kind)
    rows = [
        [code(field.name), _type(field.type), _default(field.default), docs[field.name]]
        for field in msgspec.structs.fields(kind)
    ]
    return table(["field", "value", "default", "meaning"], rows)


def _type(annotation: Any) -> str:
    """A field's type in a few words."""
    info = msgspec.inspect.type_info(annotation)
    if isinstance(info, msgspec.inspect.UnionType):
        kinds = [t for t in get_args(annotation) if t is not type(None)]
        return " or ".join(dict.fromkeys(_type(t) for t in kinds))
    match info:
        case msgspec.inspect.Metadata(type=inner):
            return _type_name(inner)
        case _:
            return _type_name(info)


def _type_name(info: Any) -> str:
    match info:
        case msgspec.inspect.EnumType(cls=kind):
            return ", ".join(code(member.value) for member in kind)
        case msgspec.inspect.LiteralType(values=values):
            return ", ".join(map(code, values))
        case msgspec.inspect.IntType():
            return "whole number"
        case msgspec.inspect.FloatType():
            return "number"
        case msgspec.inspect.StrType():
            return "text"
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            return "list"
        case _:
            return type(info).__name__.removesuffix("Type").lower()


SECTIONS: dict[str, Callable[[], str]] = {
    "routes": routes,
    "unsupported": unsupported,
    "hints": hints,
    "errors": errors,
    "metrics": metrics,
    "limits": limits,
    "server-settings": lambda: _settings(SERVER_FIELDS),
    "model-settings": lambda: _settings(MODEL_FIELDS),
    "exit-codes": exit_codes,
    "script-rules": lambda: _struct_fields(Rule),
    "engine-options": lambda: _struct_fields(ScriptedOptions),
    "fault-fields": lambda: _struct_fields(FaultEntry),
    "fault-places": lambda: table(["`at`", "when"], members(FaultAt)),
    "fault-kinds": lambda: table(["`kind`", "what happens"], members(FaultAct)),
}
