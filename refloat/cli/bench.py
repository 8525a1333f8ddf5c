"""`refloat bench`: the measurements of `refloat.bench` on one model, as a report."""

from collections.abc import Sequence
from pathlib import Path

from refloat.bench.overload_run import run_overload
from refloat.bench.report import as_markdown
from refloat.bench.run import BenchPlan, run_bench, run_recovery
from refloat.cli.exit_codes import ExitCode
from refloat.cli.progress import open_progress, say_on_stderr
from refloat.cli.serve import fail
from refloat.config.load import locate_here
from refloat.config.names import model_name
from refloat.config.schema import ModelConfig
from refloat.models.error import ModelError
from refloat.models.resolve import resolve


def parse_streams(text: str) -> tuple[int, ...]:
    """Numbers of concurrent streams from `1,4,16`. Raises `ValueError`."""
    streams = tuple(int(part) for part in text.split(","))
    if any(count < 1 for count in streams):
        raise ValueError(text)
    return streams


def bench(
    model: str,
    *,
    device: str,
    streams: Sequence[int],
    tokens: int,
    rounds: int,
    recovery: bool,
    overload: bool,
    markdown: Path | None,
) -> int:
    """Measure, and print the report as Markdown. A goal that is missed is no failure."""
    config = ModelConfig(locate_here(model), device=device)
    try:
        with open_progress() as progress:
            resolved = resolve(config, progress.sink(model_name(config)))
    except ModelError as error:
        return fail(ExitCode.NO_MODEL, [error.reason])
    if resolved.path is None:
        return fail(ExitCode.NO_MODEL, [f"{model} has no folder with IR to be measured"])
    plan = BenchPlan(
        folder=resolved.path,
        device=device,
        context_length=resolved.manifest.context_length or 0,
        streams=streams,
        tokens=tokens,
        rounds=rounds,
    )
    title, run = f"{resolved.name} on {device}", run_bench
    if recovery:
        title, run = f"{title}, recovery", run_recovery
    elif overload:
        title, run = f"{title}, overload", run_overload
    report = as_markdown(title, run(plan, say_on_stderr))
    print(report)
    if markdown is not None:
        try:
            markdown.write_text(report, encoding="utf-8")
        except OSError as error:
            return fail(ExitCode.USAGE, [f"{markdown} cannot be written: {error.strerror}"])
    return ExitCode.OK
