"""GGUF → OpenVINO IR, by the conversion program in a process of its own: the engine may crash in it.

The program (`python -m refloat.worker.convert SOURCE.gguf TARGET_DIR`) writes IR, tokenizer and
`gguf.json`; it says how far it is in JSON lines on stdout.
"""

import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from refloat.models.error import ModelError
from refloat.models.progress import Progress, ProgressSink, Stage
from refloat.models.source_child import ChildOutcome, run_child
from refloat.models.store import Store

#: A 30B model takes a few minutes; beyond this it hangs.
CONVERT_LIMIT_S = 3600.0

CONVERT_MODULE = "refloat.worker.convert"

#: IR at the GGUF's own precision plus tokenizer; measured 1.0 for Q4_1.
_SPACE_FACTOR = 1.5


def convert_gguf(gguf: Path, target: Path, store: Store, progress: ProgressSink) -> None:
    """Convert into an empty folder. Raises `ModelError` with the program's own words."""
    store.require_space(int(gguf.stat().st_size * _SPACE_FACTOR), f"converting {gguf.name}")
    said: list[str] = []

    def on_line(line: str) -> None:
        event = _decode(line)
        if event is None:
            return
        if isinstance(error := event.get("error"), str):
            said.append(error)
            return
        progress(_to_progress(gguf, event))

    progress(Progress(Stage.CONVERT, f"converting {gguf.name}", unit="steps"))
    outcome = run_child(
        [sys.executable, "-m", CONVERT_MODULE, str(gguf), str(target)],
        limit_s=CONVERT_LIMIT_S,
        what=f"converting {gguf.name}",
        on_line=on_line,
    )
    if outcome.code != 0:
        raise ModelError(f"{gguf} cannot be converted: {said[-1] if said else _why(outcome)}")


def _decode(line: str) -> dict[str, Any] | None:
    """One report; anything else on stdout is a library's chatter."""
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError:
        return None


def _to_progress(gguf: Path, event: dict[str, Any]) -> Progress:
    message, done, total = event.get("message"), event.get("done"), event.get("total")
    return Progress(
        Stage.CONVERT,
        message if isinstance(message, str) else f"converting {gguf.name}",
        done if isinstance(done, int) else 0,
        total if isinstance(total, int) else None,
        unit="steps",
    )


def _why(outcome: ChildOutcome) -> str:
    if outcome.code < 0:
        name = signal.Signals(-outcome.code).name
        hint = " (out of memory?)" if outcome.code == -signal.SIGKILL else ""
        return f"the conversion was ended by {name}{hint}"
    last = outcome.stderr[-1] if outcome.stderr else "it said nothing"
    return f"the conversion ended with exit code {outcome.code}: {last}"
