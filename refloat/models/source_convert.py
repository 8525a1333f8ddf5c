"""GGUF → OpenVINO IR, by the conversion program in a process of its own: the engine may crash in it.

The program (`python -m refloat.worker.convert SOURCE.gguf TARGET_DIR`) writes IR, tokenizer and
`gguf.json`; it says which of its stages it is in, or why it failed, in JSON lines on stdout.
"""

import signal
import sys
from pathlib import Path

import msgspec

from refloat.models.error import ModelError
from refloat.models.gguf import GgufError, read_gguf
from refloat.models.progress import Progress, ProgressSink, Stage
from refloat.models.source_child import ChildOutcome, run_child
from refloat.models.store import Store

#: A 30B model takes a few minutes; beyond this it hangs.
CONVERT_LIMIT_S = 3600.0

CONVERT_MODULE = "refloat.worker.convert"

READABLE_ARCHITECTURES = ("llama", "qwen2", "qwen3")

_STAGES = ("reading", "converting", "saving", "done")

#: IR at the GGUF's own precision plus tokenizer; measured 1.0 for Q4_1.
_SPACE_FACTOR = 1.5


def check_gguf(gguf: Path) -> None:
    """Refuse at once what the engine could not read. Raises `ModelError`."""
    try:
        facts = read_gguf(gguf)
    except GgufError as error:
        raise ModelError(f"{gguf} cannot be read as GGUF: {error}") from error
    if facts.architecture not in READABLE_ARCHITECTURES:
        raise ModelError(
            f"{gguf} is of architecture {facts.architecture!r}, which OpenVINO GenAI does not read "
            f"from GGUF ({', '.join(READABLE_ARCHITECTURES)} only): convert the original model with "
            "`optimum-cli export openvino`"
        )


def convert_gguf(gguf: Path, target: Path, store: Store, progress: ProgressSink) -> None:
    """Convert into an empty folder. Raises `ModelError` with the program's own words."""
    store.require_space(int(gguf.stat().st_size * _SPACE_FACTOR), f"converting {gguf.name}")
    said: list[str] = []

    def report(done: int) -> None:
        what = "converting to OpenVINO IR"
        progress(Progress(Stage.CONVERT, what, done, len(_STAGES), unit="steps"))

    def on_line(line: str) -> None:
        event = _decode(line)
        if event is None:
            return
        if event.stage == "failed":
            said.append(event.error or "it did not say why")
        elif event.stage in _STAGES:
            report(_STAGES.index(event.stage) + 1)

    report(0)
    # A folder below the target: what the program leaves beside it when killed goes with the target.
    inner = target / "ir"
    outcome = run_child(
        [sys.executable, "-m", CONVERT_MODULE, str(gguf), str(inner)],
        limit_s=CONVERT_LIMIT_S,
        what=f"converting {gguf.name}",
        on_line=on_line,
    )
    if outcome.code != 0:
        raise ModelError(f"{gguf} cannot be converted: {said[-1] if said else _why(outcome)}")
    for path in inner.iterdir():
        path.rename(target / path.name)
    inner.rmdir()


class _Event(msgspec.Struct):
    stage: str
    error: str | None = None


def _decode(line: str) -> _Event | None:
    """One report; anything else on stdout is a library's chatter."""
    try:
        return msgspec.json.decode(line, type=_Event)
    except msgspec.DecodeError:
        return None


def _why(outcome: ChildOutcome) -> str:
    if outcome.code < 0:
        name = signal.Signals(-outcome.code).name
        hint = " (out of memory?)" if outcome.code == -signal.SIGKILL else ""
        return f"the conversion was ended by {name}{hint}"
    last = outcome.stderr[-1] if outcome.stderr else "it said nothing"
    return f"the conversion ended with exit code {outcome.code}: {last}"
