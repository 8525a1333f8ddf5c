"""What a worker's start does not have to pay for."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.engine

_PROGRAM = """
import os, sys
from refloat.wire.child import import_less
import_less()
import numpy
print(len(os.listdir("/proc/self/task")))
import openvino_genai
print(sorted(name for name in sys.modules if name.startswith("openvino_telemetry")))
sys.stdout.flush()
os._exit(0)
"""


def test_engine_is_imported_without_converter_telemetry_and_threads_for_matrices() -> None:
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n") == ["1", "[]", ""]
