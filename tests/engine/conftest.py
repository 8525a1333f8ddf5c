"""For all tests on the real engine."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from refloat.wire.messages import EngineSpec
from tests.late_import import late_import

if TYPE_CHECKING:
    from refloat.engines import openvino_cb
else:
    openvino_cb = late_import("refloat.engines.openvino_cb")


@pytest.fixture(scope="session", autouse=True)
def undestroyed() -> Iterator[None]:
    """No engine in this process is ever destroyed, as in a worker: a destructor of OpenVINO's may take
    memory along that is somebody else's by then, and any later test crashes."""
    load = openvino_cb.OpenVinoEngine.load

    def kept(engine: openvino_cb.OpenVinoEngine, spec: EngineSpec) -> None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
        load(engine, spec)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openvino_cb.OpenVinoEngine, "load", kept)
        yield
