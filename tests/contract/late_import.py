"""SDKs that take seconds to import: whichever test process uses one does, not each that lists tests."""

import importlib.util
import sys
from types import ModuleType


def late_import(name: str) -> ModuleType:
    """The module, whose code runs once something of it is asked for."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
