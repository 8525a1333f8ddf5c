"""Model strings as settings hold them: made absolute where they are paths, and named."""

import os
from pathlib import Path, PurePath

from refloat.config.schema import ModelConfig

#: Model strings with a meaning of their own; a folder of such a name is given as `./smollm2`.
KEYWORDS = ("smollm2", "scripted")

MAX_NAME_CHARACTERS = 200


def locate_model(model: str, base: Path) -> str:
    """A model string with its path made absolute from `base`; keywords and hub ids stay as they are."""
    if model in KEYWORDS:
        return model
    try:
        path = base / Path(model).expanduser()
        is_path = model.startswith(("./", "../", "/", "~")) or model in (".", "..") or path.exists()
    except (OSError, RuntimeError, ValueError):
        return model  # no path at all; what it is instead, `models/source.py` says
    return os.path.abspath(path) if is_path else model


def model_name(config: ModelConfig) -> str:
    """The name clients use: the given one, else the folder's or file's, else the model string."""
    if config.name is not None:
        return config.name
    model = config.model
    if model.startswith("/"):
        path = PurePath(model)
        return path.stem if path.suffix.lower() == ".gguf" else path.name or model
    # A hub id may name one file of its repository: `owner/name:file.gguf`.
    return model.partition(":")[0]
