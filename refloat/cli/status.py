"""`refloat status`: a running server's own summary, as a table and as an exit code."""

import http.client
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from refloat.cli.exit_codes import ExitCode
from refloat.cli.serve import fail
from refloat.config.keys import KeyFileError, read_api_keys

_MAX_ANSWER_BYTES = 8 * 1024 * 1024


class _NoAnswerError(Exception):
    """Nothing there that could be asked; the message says what came instead."""


def show_status(url: str, api_key_file: Path | None, *, as_json: bool, timeout_s: float) -> int:
    """Ask `/health` and print it. 0: ready, 5: not ready, 6: no answer."""
    if urlsplit(url).scheme not in ("http", "https"):
        return fail(ExitCode.USAGE, [f"{url} must begin with http:// or https://"])
    try:
        key = read_api_keys(api_key_file)[0] if api_key_file else None
        health = _ask(f"{url.rstrip('/')}/health", key, timeout_s)
    except KeyFileError as error:
        return fail(ExitCode.USAGE, [str(error)])
    except _NoAnswerError as error:
        return fail(ExitCode.UNREACHABLE, [f"{url}: {error}"])
    if as_json:
        print(json.dumps(health, indent=2, ensure_ascii=False))
    else:
        _print_table(url, health)
    return ExitCode.OK if health.get("status") == "ok" else ExitCode.NOT_READY


def _ask(url: str, key: str | None, timeout_s: float) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(url, headers=headers)
    # A proxy meant for the outside must not be asked for a server of one's own.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            body = answer.read(_MAX_ANSWER_BYTES)
    except urllib.error.HTTPError as error:
        error.close()
        hint = "; give its key with --api-key-file" if error.code == 401 else ""
        raise _NoAnswerError(f"answers with status {error.code}{hint}") from error
    except urllib.error.URLError as error:
        raise _NoAnswerError(f"no server answers there ({error.reason})") from error
    except (OSError, http.client.HTTPException) as error:
        raise _NoAnswerError(
            f"no server answers there ({error or type(error).__name__})"
        ) from error
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _NoAnswerError("what answers there is no Refloat server") from error
    if not isinstance(value, dict) or "models" not in value:
        raise _NoAnswerError("what answers there is no Refloat server")
    return cast("dict[str, Any]", value)


def _print_table(url: str, health: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"Refloat {health.get('version', '')} at {url}: {health.get('status', 'unknown')}"
    table = Table(
        "Model", "State", "Context", "Workers", "Running", "Waiting", "Restarts", title=title
    )
    models: list[dict[str, Any]] = health["models"]
    for model in models:
        table.add_row(*_row(model))
    console = Console()
    console.print(table, markup=False)
    for model in models:
        for key in ("reason", "chat_unavailable"):
            if model.get(key):
                console.print(f"{model.get('name')}: {model[key]}", markup=False)


def _row(model: dict[str, Any]) -> tuple[str, ...]:
    counts: dict[str, float] = model.get("counts") or {}
    workers: list[dict[str, Any]] = model.get("workers") or []
    restarts: dict[str, int] = model.get("restarts") or {}
    return (
        str(model.get("name")),
        str(model.get("state")),
        str(model.get("context_length") or "-"),
        ", ".join(_worker(worker) for worker in workers) or "-",
        f"{counts.get('running', 0):g}",
        f"{counts.get('waiting', 0):g}",
        ", ".join(f"{cause} {count}" for cause, count in restarts.items()) or "0",
    )


def _worker(worker: dict[str, Any]) -> str:
    pid = f" (pid {worker['pid']})" if worker.get("pid") else ""
    return f"{worker.get('state')}{pid}"
