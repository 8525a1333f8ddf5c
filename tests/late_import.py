"""Modules that take seconds to import: only test processes that use one import it."""

import importlib
from types import ModuleType
from typing import Any, cast


class _Late:
    """A module, imported once something of it is asked for. What looks through a test's module for
    fixtures asks everything in it for attributes of its own: that is no use of it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)


def late_import(name: str) -> ModuleType:
    """Stands for the module. Not for names with an underscore."""
    return cast("ModuleType", _Late(name))
