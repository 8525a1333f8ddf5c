"""Where a model's chat template comes from, by precedence. Reads files; compiles nothing."""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from refloat.prep.error import PrepError
from refloat.prep.facts import ModelFacts, read_json

#: The template among several that is meant for requests with tools.
_TOOL_USE = "tool_use"


class TemplateSource(NamedTuple):
    """A chat template as text."""

    origin: str
    text: str
    with_tools: str | None = None
    """Another template, for requests that bring tools."""

    @property
    def whole_text(self) -> str:
        """All that it says, whatever a request brings."""
        return self.text if self.with_tools is None else f"{self.text}\n{self.with_tools}"


def find_template(facts: ModelFacts, chosen: str | None) -> TemplateSource | None:
    """The operator's file, `chat_template.jinja`, tokenizer_config.json, `chat_template.json`, the
    graph's notes, `gguf.json`; `None` if none has one. Raises `PrepError` for an unreadable file."""
    if chosen:
        return TemplateSource(Path(chosen).name, _read(Path(chosen)))
    folder = facts.folder
    if (folder / "chat_template.jinja").is_file():
        tools = folder / "additional_chat_templates" / f"{_TOOL_USE}.jinja"
        return TemplateSource(
            "chat_template.jinja",
            _read(folder / "chat_template.jinja"),
            _read(tools) if tools.is_file() else None,
        )
    config = facts.tokenizer_config
    candidates = (
        ("tokenizer_config.json", config.get("chat_template") or config.get("chat_templates")),
        ("chat_template.json", read_json(folder, "chat_template.json").get("chat_template")),
        ("rt_info", facts.rt_info("chat_template")),
        ("gguf.json", read_json(folder, "gguf.json").get("chat_template")),
    )
    for origin, value in candidates:
        source = _chosen(origin, value)
        if source is not None:
            return source
    return None


class _Named(msgspec.Struct):
    """One of several templates."""

    name: str
    template: str


_Templates = str | list[_Named] | dict[str, str] | None


def _chosen(origin: str, value: Any) -> TemplateSource | None:
    """A template from a string, a list of `{name, template}`, or a mapping from names."""
    try:
        found: _Templates = msgspec.convert(value, _Templates)
    except msgspec.ValidationError as error:
        raise PrepError(f"the chat template in {origin} is not understood: {error}") from error
    if not found:
        return None
    if isinstance(found, str):
        return TemplateSource(origin, found)
    if isinstance(found, list):
        found = {entry.name: entry.template for entry in found}
    default = found.get("default", next(iter(found.values())))
    return TemplateSource(origin, default, found.get(_TOOL_USE))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PrepError(f"the chat template {path.name} cannot be read: {error}") from error
