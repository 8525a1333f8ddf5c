"""Structured logs on stderr: text on a terminal, JSON lines elsewhere. Never a prompt's text.

Every module logs with `get_logger(__name__)` and an event name plus fields; request and worker ids
are fields, so one request can be followed through a crash with one grep.
"""

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec


@contextmanager
def _no_rich() -> Generator[None]:
    """structlog takes in rich, if it is there, for tracebacks that print every local variable. Ours
    never do that, since prompts are among them; so it need not take a quarter of a server's start."""
    is_there = "rich" in sys.modules
    if not is_there:
        sys.modules["rich"] = None  # pyright: ignore[reportArgumentType] # means "not there"
    try:
        yield
    finally:
        if not is_there:
            del sys.modules["rich"]


with _no_rich():
    import structlog

LEVELS = ("debug", "info", "warning", "error")

_encode_json = msgspec.json.Encoder(enc_hook=str).encode


def configure_logging(level: str, log_format: str) -> None:
    """Set up the process's logging, once, at start. Raises `ValueError` for unknown values."""
    if level not in LEVELS:
        raise ValueError(f"log level {level!r} is not one of {', '.join(LEVELS)}")
    if log_format not in ("auto", "text", "json"):
        raise ValueError(f"log format {log_format!r} is not one of auto, text, json")
    as_text = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
    processors: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _name_logger,
        structlog.processors.add_log_level,
    ]
    if as_text:
        processors += [
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            _for_people,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                pad_event_to=18,
                exception_formatter=structlog.dev.plain_traceback,
            ),
        ]
    else:
        processors += [
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_to_json),
        ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, force=True)


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """A logger that carries the module's name. Made at import, it still follows `configure_logging`,
    which comes later: `bind` here would freeze the configuration of that moment."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(logger_name=name)
    return logger


def _name_logger(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """`logger` is a parameter's name in structlog, so the field has another until here."""
    if "logger_name" in event:
        event["logger"] = event.pop("logger_name")
    return event


def _for_people(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """On a terminal: no module names, and no fields that say nothing."""
    silent: tuple[object, ...] = (None, "", [], {})
    return {k: v for k, v in event.items() if v not in silent and k != "logger"}


def _to_json(event: dict[str, Any], **_: Any) -> str:
    return _encode_json(event).decode()
