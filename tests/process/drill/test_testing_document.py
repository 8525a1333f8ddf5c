"""The example of docs/TESTING.md is a test that passes as printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[3] / "docs" / "TESTING.md"


@pytest.mark.process
def test_example_passes_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
    monkeypatch.setenv("REFLOAT_HOME", str(tmp_path / "home"))
    file = tmp_path / "test_example.py"
    file.write_text(example)
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
