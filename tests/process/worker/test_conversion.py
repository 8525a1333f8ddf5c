"""The conversion program, as its caller sees it: lines, exit codes, and what is left on disk."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from refloat.wire.exit_codes import ChildExit

pytestmark = pytest.mark.process


def convert(source: Path, target: Path) -> tuple[int, list[dict[str, Any]]]:
    result = subprocess.run(
        [sys.executable, "-m", "refloat.worker.convert", str(source), str(target)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return result.returncode, [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("data", "word"),
    [(b"not a gguf file at all", "magic"), (b"GGUF\x03\x00\x00\x00", "header")],
)
def test_broken_source_is_refused_in_words_and_leaves_nothing(
    tmp_path: Path, data: bytes, word: str
) -> None:
    source, target = tmp_path / "in" / "model.gguf", tmp_path / "out" / "model"
    source.parent.mkdir()
    source.write_bytes(data)
    code, lines = convert(source, target)
    assert code == ChildExit.LOAD_FAILED
    assert word in lines[-1]["error"]
    assert not target.exists()
    assert [path.name for path in source.parent.iterdir()] == ["model.gguf"]


def test_missing_source_is_refused_in_words(tmp_path: Path) -> None:
    code, lines = convert(tmp_path / "none.gguf", tmp_path / "out")
    assert code == ChildExit.LOAD_FAILED
    assert "none.gguf" in lines[-1]["error"]


def test_target_in_use_is_refused_and_untouched(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "precious").write_text("x")
    code, lines = convert(tmp_path / "none.gguf", target)
    assert code == ChildExit.LOAD_FAILED
    assert "not an empty folder" in lines[-1]["error"]
    assert (target / "precious").read_text() == "x"
