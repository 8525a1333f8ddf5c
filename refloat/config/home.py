"""Where state lives: `$REFLOAT_HOME`, by default `~/.cache/refloat`. Versioned below."""

import os
from pathlib import Path

#: Raised when the layout below changes; older layouts are left alone and never read.
LAYOUT_VERSION = "v1"


def refloat_home() -> Path:
    """The folder for all state, not created here."""
    configured = os.environ.get("REFLOAT_HOME")
    base = Path(configured) if configured else Path.home() / ".cache" / "refloat"
    return base / LAYOUT_VERSION


def models_dir() -> Path:
    """Fetched and converted models."""
    return refloat_home() / "models"


def compiled_dir() -> Path:
    """Compiled kernels (OpenVINO's `CACHE_DIR`)."""
    return refloat_home() / "compiled"


def probes_dir() -> Path:
    """What each model's probe said, by model, properties, device and versions."""
    return refloat_home() / "probes"


def responses_file() -> Path:
    """Stored answers of `/responses`."""
    return refloat_home() / "responses.sqlite3"


def incidents_dir() -> Path:
    """Evidence of faults."""
    return refloat_home() / "incidents"


def loads_dir() -> Path:
    """Memory that loads under way have reserved, shared by all servers of a host."""
    return refloat_home() / "loads"
