"""The YAML file as plain values, with the line of every key. Knows YAML, not what the keys mean.

Stricter than YAML: no duplicate keys (the last would win silently), no aliases (a few lines of them
can expand to gigabytes), a bound on size and depth.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from refloat.config.error import ConfigError

MAX_FILE_BYTES = 1024 * 1024
MAX_DEPTH = 40


@dataclass(frozen=True, slots=True)
class Document:
    """A file's content."""

    path: Path
    values: dict[str, Any]
    lines: Mapping[str, int]
    """Line of each key by its dotted path (`models[0].device`), counted from 1."""

    def where(self, key: str) -> str:
        """`file:line` of a key, or the file alone."""
        line = self.lines.get(key)
        return f"{self.path}:{line}" if line else str(self.path)


def read_document(path: Path) -> Document:
    """Read a file. Raises `ConfigError` naming the file and, where there is one, the line."""
    text = _read_text(path)
    try:
        _check_events(path, text)
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        walker = _Walker(path, loader)
        values: Any = {} if node is None else walker.value(node, "")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise ConfigError(f"{where}: not valid YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        raise ConfigError(f"{path}: not valid YAML: {first_line}") from error
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: the file must hold a mapping with `models` and `server`")
    content: dict[str, Any] = values  # pyright: ignore[reportUnknownVariableType]
    return Document(path, content, walker.lines)


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes; is this the right file?")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})") from error


def _check_events(path: Path, text: str) -> None:
    """Refuse aliases and depth before any tree is built, in a loop and not in recursion."""
    depth = 0
    for event in _events(text):
        where = f"{path}:{event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError(f"{where}: YAML aliases (`*{event.anchor}`) are not supported")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise ConfigError(f"{where}: nested more than {MAX_DEPTH} levels deep")


def _events(text: str) -> Iterator[Any]:
    yield from yaml.parse(text, Loader=yaml.SafeLoader)  # pyright: ignore[reportUnknownMemberType]


class _Walker:
    """Builds plain values from nodes and remembers where each key stood."""

    def __init__(self, path: Path, loader: yaml.SafeLoader) -> None:
        self.lines: dict[str, int] = {}
        self._path = path
        self._loader = loader

    def value(self, node: yaml.Node, at: str) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, at)
        if isinstance(node, yaml.SequenceNode):
            return [self._item(item, f"{at}[{index}]") for index, item in enumerate(node.value)]
        return self._loader.construct_object(node, deep=True)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]

    def _item(self, node: yaml.Node, at: str) -> Any:
        self.lines[at] = node.start_mark.line + 1
        return self.value(node, at)

    def _mapping(self, node: yaml.MappingNode, at: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigError(f"{self._path}:{line}: a key must be a single word")
            key = key_node.value
            path = f"{at}.{key}" if at else key
            if key in values:
                first = self.lines[path]
                raise ConfigError(
                    f"{self._path}:{line}: {path} is given twice (first in line {first})"
                )
            self.lines[path] = line
            values[key] = self.value(value_node, path)
        return values
