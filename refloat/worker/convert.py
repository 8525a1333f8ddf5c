"""GGUF to OpenVINO IR, in a process of its own: it takes memory, and a broken file may end it.

    python -m refloat.worker.convert SOURCE.gguf TARGET_DIR

One JSON object a line on stdout: `{"stage": …, "done": 1, "total": 3, "seconds": …, "message": …}`, and
`{"error": …}` before a failure. All is made inside TARGET_DIR, and `gguf.json` is written last: without
it a conversion was cut short.
"""

import argparse
import os
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from refloat.engines.engine_text import clean_message
from refloat.models.gguf import GgufError, read_gguf
from refloat.wire.child import settle
from refloat.wire.exit_codes import ChildExit

_STAGES = ("reading", "converting", "saving", "done")
_WORK_NAME = ".work"
_FACTS_NAME = "gguf.json"
_WEIGHTS_NAME = "openvino_model.bin"


class Stage(msgspec.Struct, omit_defaults=True):
    """One line of progress."""

    stage: str
    done: int
    """Stages that are over."""
    total: int
    seconds: float
    """Since the start."""
    message: str | None = None
    error: str | None = None


class ConversionError(Exception):
    """The conversion cannot be done, in words for the operator."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Convert and leave; code 0 only if TARGET_DIR is complete."""
    parser = argparse.ArgumentParser(prog="refloat.worker.convert")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args(arguments)
    report = _Reporter(os.dup(1))
    code = ChildExit.INTERNAL
    try:
        if settle("refloat-convert"):
            convert(options.source, options.target, report)
            code = ChildExit.ASKED
        else:
            code = ChildExit.ORPHANED
    except (ConversionError, GgufError, OSError) as error:
        report("failed", error=str(error))
        code = ChildExit.LOAD_FAILED
    except BaseException as error:  # noqa: BLE001 - reported; the process ends here whatever it was
        print(traceback.format_exc(), file=sys.stderr, flush=True)  # noqa: T201
        report("failed", error=clean_message(f"{type(error).__name__}: {error}"))
    os._exit(code)


class _Reporter:
    """Writes stages to what was stdout when the process started; native code prints elsewhere."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._done = 0
        self._began = time.monotonic()

    def __call__(self, stage: str, message: str | None = None, *, error: str | None = None) -> None:
        if stage in _STAGES:
            self._done = _STAGES.index(stage)
        seconds = round(time.monotonic() - self._began, 3)
        line = Stage(stage, self._done, len(_STAGES) - 1, seconds, message, error)
        try:
            os.write(self._fd, msgspec.json.encode(line) + b"\n")
        except BrokenPipeError:
            return  # nobody watches; the result is the folder


def convert(source: Path, target: Path, report: _Reporter) -> None:
    """Write `target` from `source`. Raises `ConversionError`, `GgufError` and `OSError`."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConversionError(f"{target} exists and is not an empty folder")
    report("reading")
    facts = read_gguf(source)
    target.mkdir(parents=True, exist_ok=True)
    # The engine writes beside the GGUF, so the GGUF is linked to where the writing may be.
    folder = target / _WORK_NAME
    folder.mkdir()
    try:
        linked = folder / "source.gguf"
        _link(source.resolve(), linked)
        report("converting", f"{facts.architecture}, {source.stat().st_size >> 20} MiB")
        _write_ir(linked)
        report("saving")
        linked.unlink()
        if not (folder / _WEIGHTS_NAME).is_file():
            raise ConversionError("the engine wrote no network")
        for path in folder.iterdir():
            path.rename(target / path.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    (target / _FACTS_NAME).write_bytes(msgspec.json.encode(facts))
    report("done")


def _write_ir(gguf: Path) -> None:
    import openvino_genai as genai  # after the file was checked: the import alone takes a while

    try:
        pipeline = genai.LLMPipeline(str(gguf), "CPU", enable_save_ov_model=True)
    except Exception as error:
        raise ConversionError(clean_message(str(error))) from error
    _undestroyed.append(pipeline)


#: Held until `os._exit`; a destructor at interpreter exit may crash what has succeeded.
_undestroyed: list[object] = []


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:  # another file system, or one without hard links
        target.symlink_to(source)


if __name__ == "__main__":
    main()
