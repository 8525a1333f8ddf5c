"""`refloat serve` until the gateway takes over: settings, the socket, the models' files."""

import signal
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from refloat.cli.exit_codes import ExitCode
from refloat.cli.listener import BindError, open_listener
from refloat.cli.progress import open_progress
from refloat.cli.uncollected import uncollected
from refloat.config.check import check
from refloat.config.error import ConfigError
from refloat.config.load import LoadedConfig, load
from refloat.config.names import model_name
from refloat.config.schema import Config, ModelConfig
from refloat.models.error import ModelError
from refloat.models.in_use import using
from refloat.models.resolve import ResolvedModel, resolve
from refloat.observe.log import configure_logging, get_logger

_log = get_logger(__name__)

Failure = tuple[ModelConfig, str]


class _StoppedEarly(BaseException):
    """SIGTERM before there was anything to drain."""


def serve_models(
    model: str | None, config_file: Path | None, options: dict[str, str | bool]
) -> int:
    """Serve; the exit code. Every way not to serve is one line on stderr for each reason."""
    if model is not None:
        options = {"model": model, **options}
    try:
        loaded = load_checked(config_file, options)
    except ConfigError as error:
        return fail(ExitCode.USAGE, error.problems)
    config = loaded.config
    configure_logging(config.server.log_level, config.server.log_format)
    try:
        listener = open_listener(config.server.host, config.server.port)
    except BindError as error:
        return fail(ExitCode.CANNOT_BIND, [str(error)])
    with listener:
        try:
            with _stoppable():
                resolved, failed = resolve_all(config)
        except _StoppedEarly:
            return ExitCode.OK
        except KeyboardInterrupt:
            return fail(ExitCode.INTERRUPTED, ["interrupted"])
        if not resolved:
            reasons = [f"model {model_name(model)}: {reason}" for model, reason in failed]
            return fail(ExitCode.NO_MODEL, reasons)
        with uncollected():
            from refloat.app import serve

        with ExitStack() as uses:
            for one in resolved:
                uses.enter_context(using(one.path))
            return serve(config, resolved, failed, listener)


def load_checked(config_file: Path | None, options: dict[str, str | bool]) -> LoadedConfig:
    """Settings that fit each other; warnings are said. Raises `ConfigError`."""
    loaded = load(file=config_file, options=options)
    findings = check(loaded.config)
    for warning in findings.warnings:
        print(f"refloat: warning: {warning}", file=sys.stderr)
    if findings.errors:
        raise ConfigError(findings.errors)
    return loaded


def resolve_all(config: Config) -> tuple[list[ResolvedModel], list[Failure]]:
    """Every model's files, or why not; one model's failure leaves the others alone."""
    resolved: list[ResolvedModel] = []
    failed: list[Failure] = []
    with open_progress(lambda text: _log.info("model_progress", text=text)) as progress:
        for model in config.models:
            try:
                resolved.append(resolve(model, progress.sink(model_name(model))))
            except ModelError as error:
                failed.append((model, error.reason))
    return resolved, failed


def fail(code: ExitCode, reasons: Sequence[str]) -> int:
    """Say why and give the code."""
    for reason in reasons:
        print(f"refloat: {reason}", file=sys.stderr)
    return code


@contextmanager
def _stoppable() -> Generator[None]:
    """SIGTERM ends long steps at once, and with them the helpers they run."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _StoppedEarly

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
