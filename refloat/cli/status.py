"""`refloat status`: a running server's own summary, as a table and as an exit code."""

from pathlib import Path

import msgspec

from refloat.cli.ask import NoAnswerError, Target, ask
from refloat.cli.exit_codes import ExitCode
from refloat.cli.serve import fail


class _Worker(msgspec.Struct):
    state: str
    pid: int | None = None
    role: str = "serving"
    reason: str | None = None


class _Model(msgspec.Struct):
    name: str
    state: str
    reason: str | None = None
    notice: str | None = None
    chat_unavailable: str | None = None
    context_length: int | None = None
    workers: list[_Worker] = []
    restarts: dict[str, int] = {}
    counts: dict[str, float] = {}


class _Health(msgspec.Struct):
    """What is used of `/health`; a newer server may say more."""

    status: str
    models: list[_Model]
    version: str = ""


def show_status(url: str, api_key_file: Path | None, *, as_json: bool, timeout_s: float) -> int:
    """Ask `/health` and print it. 0: ready, 5: not ready, 6: no answer."""
    try:
        target = Target.of(url, api_key_file, timeout_s=timeout_s)
    except ValueError as error:
        return fail(ExitCode.USAGE, [str(error)])
    try:
        body = ask(target, "/health")
        health = msgspec.json.decode(body, type=_Health)
    except NoAnswerError as error:
        return fail(ExitCode.UNREACHABLE, [f"{url}: {error}"])
    except (msgspec.DecodeError, RecursionError):
        return fail(ExitCode.UNREACHABLE, [f"{url}: what answers there is no Refloat server"])
    if as_json:
        print(msgspec.json.format(body, indent=2).decode())
    else:
        _print_table(url, health)
    return ExitCode.OK if health.status == "ok" else ExitCode.NOT_READY


def _print_table(url: str, health: _Health) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    columns = ("Model", "State", "Context", "Workers", "Running", "Waiting", "Restarts")
    table = Table(*columns, title=f"Refloat {health.version} at {url}: {health.status}")
    for model in health.models:
        table.add_row(*map(escape, _row(model)))
    console = Console()
    console.print(table)
    for model in health.models:
        for reason in (model.reason, model.notice, *_spares(model), model.chat_unavailable):
            if reason:
                console.print(f"{model.name}: {reason}", markup=False)


def _spares(model: _Model) -> list[str]:
    """Why a spare is not ready."""
    spares = [worker for worker in model.workers if worker.role == "spare" and worker.reason]
    return [f"the spare: {worker.reason}" for worker in spares]


def _row(model: _Model) -> tuple[str, ...]:
    workers = [
        ("spare: " if worker.role == "spare" else "")
        + (f"{worker.state} (pid {worker.pid})" if worker.pid else worker.state)
        for worker in model.workers
    ]
    return (
        model.name,
        model.state,
        str(model.context_length or "-"),
        ", ".join(workers) or "-",
        f"{model.counts.get('running', 0):g}",
        f"{model.counts.get('waiting', 0):g}",
        ", ".join(f"{cause} {count}" for cause, count in model.restarts.items()) or "0",
    )
