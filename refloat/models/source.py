"""What a model string means: one of five kinds, judged in a fixed order. Fetches nothing.

1. `smollm2` and `scripted` are themselves (a folder of such a name is `./smollm2`).
2. What exists as a path is a folder or a `.gguf` file.
3. What looks like a path but does not exist is an error, and no hub id.
4. `owner/name` and `owner/name:file.gguf` are Hugging Face ids.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from refloat.config.fields import nearest
from refloat.config.names import KEYWORDS
from refloat.models.error import ModelError

_HUB_ID = re.compile(
    r"(?P<repo>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})(?::(?P<file>[^\0:]+\.gguf))?"
)


@dataclass(frozen=True, slots=True)
class Scripted:
    """The scripted model: no files, no OpenVINO."""


@dataclass(frozen=True, slots=True)
class Smollm2:
    """The default model, from a wheel."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the user's, used where it is and never written to."""

    path: Path


@dataclass(frozen=True, slots=True)
class GgufFile:
    """A GGUF file of the user's, converted inside the cache."""

    path: Path


@dataclass(frozen=True, slots=True)
class Hub:
    """A repository on the Hugging Face hub."""

    repo: str
    file: str | None = None
    """One GGUF file of it; `None`: OpenVINO IR, or the only GGUF file."""


Source = Scripted | Smollm2 | Folder | GgufFile | Hub


def classify(model: str) -> Source:
    """The kind of a model string. Raises `ModelError`."""
    match model:
        case "scripted":
            return Scripted()
        case "smollm2":
            return Smollm2()
        case "":
            raise ModelError("the model is empty: give smollm2, a folder, a .gguf file or a hub id")
        case _:
            pass
    try:
        found = _from_path(model, Path(model).expanduser())
    except (OSError, RuntimeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ModelError(f"model {model[:200]!r} is no usable path: {why}") from error
    return found or _from_hub_id(model)


def _from_path(model: str, path: Path) -> Source | None:
    if path.is_dir():
        return Folder(path)
    if path.exists():
        if path.suffix.lower() == ".gguf":
            return GgufFile(path)
        if path.suffix.lower() in (".xml", ".bin"):
            raise ModelError(f"{model} is one file of a model: give the folder {path.parent}")
        raise ModelError(f"{model} is neither a folder nor a .gguf file")
    repo, of_a_repo, _ = model.partition(":")
    looks_like_path = model.startswith(("/", ".", "~")) or repo.count("/") > 1
    if looks_like_path or (repo.lower().endswith(".gguf") and not of_a_repo):
        raise ModelError(f"there is no file or folder {model}")
    return None


def _from_hub_id(model: str) -> Source:
    if match := _HUB_ID.fullmatch(model):
        return Hub(match["repo"], match["file"])
    meant = nearest(model, KEYWORDS)
    hint = f"; did you mean {meant}?" if meant else ""
    raise ModelError(
        f"{model[:200]!r} is neither a known model ({', '.join(KEYWORDS)}), nor an existing folder "
        f"or .gguf file, nor a Hugging Face id (owner/name){hint}"
    )
