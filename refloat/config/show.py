"""The effective configuration as YAML that could be used as a file, each line with its origin."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from refloat.config.fields import MODEL_FIELDS, SERVER_FIELDS, Field
from refloat.config.load import LoadedConfig


def show(loaded: LoadedConfig) -> str:
    """Every setting, its value, and `# where it came from`."""
    lines = ["models:"]
    for model, origins in zip(loaded.config.models, loaded.model_origins, strict=True):
        rows = _rows(model, MODEL_FIELDS, origins)
        lines += [("  - " if index == 0 else "    ") + row for index, row in enumerate(rows)]
    lines.append("server:")
    lines += [
        "  " + row for row in _rows(loaded.config.server, SERVER_FIELDS, loaded.server_origins)
    ]
    return "\n".join(lines)


def _rows(
    struct: msgspec.Struct, fields: Mapping[str, Field], origins: Mapping[str, str]
) -> Iterator[str]:
    for key in fields:
        text = f"{key}: {_scalar(getattr(struct, key))}"
        yield f"{text:<50}  # {origins.get(key, 'default')}"


def _scalar(value: Any) -> str:
    """JSON is YAML, and leaves no doubt about quoting."""
    return json.dumps(value, ensure_ascii=False)
