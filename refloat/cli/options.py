"""The options of `refloat serve`, made from the settings' schema so that none is written twice."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from refloat.config.fields import FIELDS, Field

EPILOG = (
    "Every option is also a variable (REFLOAT_PORT) and a key of the --config file; the command "
    "line wins over the environment, and that over the file. Exit codes: 0 served and drained, "
    "1 internal, 2 wrong options or configuration, 3 no model could be had or loaded, "
    "4 cannot listen there."
)

_PANELS: dict[str, tuple[str, ...]] = {
    "Server": (
        "host", "port", "api_key_file", "keys", "allow_open", "cors_origins",
        "metrics",
    ),
    "Logging": ("log_level", "log_format", "log_prompts"),
    "Evidence of faults": ("max_incidents", "max_incident_bytes", "kernel_log"),
    "Clients that are slow, leave or come back": (
        "slow_reader_timeout_s", "stream_buffer_bytes", "reconnect_window_s", "retry_window_s",
        "replay_window_s", "replay_budget_bytes", "finish_orphans", "responses_bytes",
        "responses_retention_s",
    ),
    "Limits and deadlines": (
        "max_body_bytes", "memory_budget_bytes", "memory_reserve_bytes", "gateway_memory_bytes",
        "worker_memory_bytes", "drain_timeout_s", "hold_timeout_s",
        "request_timeout_s", "max_generation_s", "loop_guard_tokens", "header_delay_s", "ready_when",
        "max_queue", "load_timeout_s", "stall_floor_s",
    ),
    "Model": (
        "name", "device", "context_length", "max_output_tokens", "chat_template",
        "tool_parser", "reasoning_parser",
    ),
    "Engine": (
        "plugin_config", "cache_size", "num_kv_blocks", "max_num_seqs", "max_num_batched_tokens",
        "inter_token_target_ms", "fair_preemption", "enable_prefix_caching", "cache_dir",
    ),
    "Recovery": ("spares", "ladder", "ladder_quiet_s"),
    "Scripted model and tests": ("script", "engine_options", "faults"),
}  # fmt: skip

_METAVARS = {
    "host": "ADDRESS",
    "name": "NAME",
    "device": "DEVICE",
    "cors_origins": "URL,URL...",
    "cache_size": "GB",
    "api_key_file": "FILE",
    "chat_template": "FILE",
    "tool_parser": "NAME",
    "reasoning_parser": "NAME",
    "script": "FILE",
    "kernel_log": "FILE",
    "cache_dir": "FOLDER",
}


def serve_signature(
    function: Callable[[str | None, Path | None, dict[str, str | bool]], None],
) -> Callable[..., None]:
    """A command that takes every setting as an option and hands over those that were given."""

    def command(**given: Any) -> None:
        model: str | None = given.pop("model")
        config: Path | None = given.pop("config")
        function(model, config, {key: v for key, v in given.items() if v is not None})

    parameters = [_model_argument(), _config_option(), *map(_option, _in_panel_order())]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__name__ = function.__name__
    command.__doc__ = function.__doc__
    return command


def panel_of(key: str) -> str:
    """The help panel that an option stands in."""
    return next((panel for panel, keys in _PANELS.items() if key in keys), "More")


def _in_panel_order() -> list[Field]:
    order = [key for keys in _PANELS.values() for key in keys]
    rest = [key for key in FIELDS if key not in order and key != "model"]
    return [FIELDS[key] for key in (*order, *rest)]


def _model_argument() -> inspect.Parameter:
    text = FIELDS["model"].description + " (smollm2 if none is given)"
    argument = typer.Argument(metavar="MODEL", help=text, show_default=False)
    return _parameter("model", Annotated[str | None, argument])


def _config_option() -> inspect.Parameter:
    text = "YAML file with all settings and any number of models; excludes MODEL"
    option = typer.Option("--config", metavar="FILE", help=text, rich_help_panel="Server")
    return _parameter("config", Annotated[Path | None, option])


def _option(field: Field) -> inspect.Parameter:
    flags: tuple[str, ...] = (field.flag,)
    if field.is_flag:
        flags = (f"{field.flag}/--no-{field.flag.removeprefix('--')}",)
    elif field.key.endswith("_s"):  # the unit is in the metavar
        flags = (field.flag.removesuffix("-s"), field.flag)
    option = typer.Option(
        *flags,
        help=f"{field.description}{_remarks(field)}.",
        metavar=None if field.is_flag else _metavar(field),
        show_default=False,
        rich_help_panel=panel_of(field.key),
    )
    kind = bool | None if field.is_flag else str | None
    return _parameter(field.key, Annotated[kind, option])


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _remarks(field: Field) -> str:
    """Choices and default, behind the description."""
    words, default = field.expected, _default(field)
    remarks = [words] if words.startswith("one of") else []
    remarks += [f"default: {default}"] if default else []
    return f" ({'; '.join(remarks)})" if remarks else ""


def _metavar(field: Field) -> str:
    if field.key in _METAVARS:
        return _METAVARS[field.key]
    if field.key.endswith("_s"):
        return "SECONDS"
    kinds = {"a whole number": "N", "a number": "NUMBER", "a mapping": "JSON", "a list": "JSON"}
    return next((kind for words, kind in kinds.items() if field.expected.startswith(words)), "TEXT")


def _default(field: Field) -> str:
    """The default in words; the option's own is `None`, which means "not given"."""
    value = field.default
    if value is None or value == {} or value == [] or value is msgspec.NODEFAULT:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
