"""What a `$ref` refers to, in the same schema."""

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

from refloat.grammar.errors import GrammarError
from refloat.grammar.schema.keywords import Path


def target_of(root: Any, pointer: str, path: Path) -> tuple[Any, Path]:
    """The schema and its own path. Raises `GrammarError`, at `path`, if there is none."""
    if pointer == "#":
        return root, ()
    if not pointer.startswith("#/"):
        raise GrammarError("only references into the same schema (#/...) are supported", path)
    found, place = root, list[str | int]()
    for part in unquote(pointer[2:]).split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and key in found:
            found = cast("Mapping[str, Any]", found)[key]
            place.append(key)
        elif (
            isinstance(found, list) and key.isdecimal() and int(key) < len(cast("list[Any]", found))
        ):
            found = cast("list[Any]", found)[int(key)]
            place.append(int(key))
        else:
            raise GrammarError(f"{pointer} is not in the schema", path)
    return found, tuple(place)
