"""For all tests on the real engine."""

import ctypes
from collections.abc import Iterator

import pytest

from refloat.engines.openvino_cb import OpenVinoEngine
from refloat.wire.messages import EngineSpec


@pytest.fixture(scope="session", autouse=True)
def undestroyed() -> Iterator[None]:
    """No engine in this process is ever destroyed, as in a worker: a destructor of OpenVINO's may take
    memory along that is somebody else's by then, and any later test crashes."""
    load = OpenVinoEngine.load

    def kept(engine: OpenVinoEngine, spec: EngineSpec) -> None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
        load(engine, spec)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenVinoEngine, "load", kept)
        yield
