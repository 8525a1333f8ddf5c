"""The effective configuration: defaults < YAML file < environment < command line, each with its origin.

Wrong and unknown settings are all collected and reported together. Whether right values fit each
other is `check.py`'s question.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from refloat.config.error import ConfigError
from refloat.config.fields import (
    ENV_PREFIX,
    FIELDS,
    MODEL_FIELDS,
    SERVER_FIELDS,
    Field,
    WrongValueError,
    nearest,
    shown,
)
from refloat.config.file import Document, read_document
from refloat.config.names import locate_model
from refloat.config.schema import Config, ModelConfig, ServerConfig

DEFAULT_MODEL = "smollm2"

#: Variables with our prefix that are no settings of a server.
RESERVED_VARIABLES = frozenset({"REFLOAT_HOME"})

#: Settings that name files; in a YAML file they are relative to that file.
PATH_KEYS = frozenset({"api_key_file", "cache_dir", "chat_template", "script"})


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and where it came from."""

    value: Any
    origin: str


Settings = dict[str, Setting]


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """The configuration, and the origin of every setting that is not at its default."""

    config: Config
    server_origins: Mapping[str, str]
    model_origins: tuple[Mapping[str, str], ...]


@dataclass(slots=True)
class _Layers:
    """What has been read so far."""

    server: Settings = field(default_factory=dict[str, Setting])
    models: list[Settings] = field(default_factory=list[Settings])
    overlay: Settings = field(default_factory=dict[str, Setting])
    """Model settings from the environment and the command line: for the only model."""
    problems: list[str] = field(default_factory=list[str])


def load(
    *,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, str | bool] | None = None,
) -> LoadedConfig:
    """Put the layers together.

    `options` are command line options by their schema name, as text (or a flag's boolean). Raises
    `ConfigError` with every problem found.
    """
    layers = _Layers()
    options = options or {}
    if file is not None:
        if "model" in options:
            raise ConfigError("MODEL and --config exclude each other: name the model in the file")
        _read_file(layers, read_document(file))
    _read_environment(layers, os.environ if environ is None else environ)
    _read_options(layers, options)
    _apply_overlay(layers)
    if layers.problems:
        raise ConfigError(layers.problems)
    return _build(layers)


def locate_here(model: str) -> str:
    """A model string from the command line, its path made absolute from the working directory."""
    return locate_model(model, Path.cwd())


def _read_file(layers: _Layers, document: Document) -> None:
    for key, value in document.values.items():
        if key == "server":
            layers.server = _section(layers, document, "server", value, SERVER_FIELDS)
        elif key == "models":
            _read_models(layers, document, value)
        else:
            layers.problems.append(f"{document.where(key)}: {_unknown_top(key)}")


def _read_models(layers: _Layers, document: Document, value: object) -> None:
    if not isinstance(value, list):
        layers.problems.append(f"{document.where('models')}: models must be a list of mappings")
        return
    entries: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
    for index, entry in enumerate(entries):
        at = f"models[{index}]"
        settings = _section(layers, document, at, entry, MODEL_FIELDS)
        if isinstance(entry, dict) and "model" not in entry:
            layers.problems.append(f"{document.where(at)}: {at}.model is missing")
        layers.models.append(settings)


def _section(
    layers: _Layers, document: Document, at: str, value: object, known: Mapping[str, Field]
) -> Settings:
    if value is None and at == "server":
        return {}
    if not isinstance(value, dict):
        layers.problems.append(f"{document.where(at)}: {at} must be a mapping, not {shown(value)}")
        return {}
    settings: Settings = {}
    given: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
    for key, raw in given.items():
        path = f"{at}.{key}"
        where = document.where(path)
        if key not in known:
            layers.problems.append(f"{where}: {_unknown(path, key, known)}")
            continue
        try:
            converted = known[key].convert(raw)
        except WrongValueError as error:
            layers.problems.append(f"{where}: {path} {error}")
            continue
        settings[key] = Setting(_located(key, converted, document.path.parent), where)
    return settings


def _located(key: str, value: Any, base: Path) -> Any:
    """Paths made absolute: in a file they are relative to it, else to the working directory."""
    if key == "model" and isinstance(value, str):
        return locate_model(value, base)
    if key == "keys":
        return [_located_key(entry, base) for entry in value]
    if key in PATH_KEYS and isinstance(value, str):
        return os.path.abspath(base / Path(value).expanduser())
    return value


def _located_key(entry: dict[str, Any], base: Path) -> dict[str, Any]:
    path = entry.get("key_file")
    if not isinstance(path, str):
        return entry
    return {**entry, "key_file": os.path.abspath(base / Path(path).expanduser())}


def _read_environment(layers: _Layers, environ: Mapping[str, str]) -> None:
    by_variable = {field.env: field for field in FIELDS.values()}
    for name in sorted(environ):
        if not name.startswith(ENV_PREFIX) or name in RESERVED_VARIABLES:
            continue
        known = by_variable.get(name)
        if known is None:
            hint = nearest(name, [*by_variable, *RESERVED_VARIABLES])
            meant = f"; did you mean {hint}?" if hint else ""
            layers.problems.append(f"environment: {name} is no setting{meant}")
            continue
        _take(layers, known, environ[name], f"environment {name}")


def _read_options(layers: _Layers, options: Mapping[str, str | bool]) -> None:
    for key, value in options.items():
        known = FIELDS[key]
        _take(layers, known, value, "MODEL" if key == "model" else f"option {known.flag}")


def _take(layers: _Layers, known: Field, value: str | bool, origin: str) -> None:
    try:
        converted = value if isinstance(value, bool) else known.parse(value)
    except WrongValueError as error:
        layers.problems.append(f"{origin} {error}")
        return
    target = layers.server if known.section == "server" else layers.overlay
    target[known.key] = Setting(_located(known.key, converted, Path.cwd()), origin)


def _apply_overlay(layers: _Layers) -> None:
    if len(layers.models) > 1:
        for setting in layers.overlay.values():
            layers.problems.append(
                f"{setting.origin} is for a single model, but the file has {len(layers.models)}: "
                "set it there, under the model that is meant"
            )
        return
    if not layers.models:
        layers.models.append({"model": Setting(DEFAULT_MODEL, "default")})
    layers.models[0].update(layers.overlay)


def _build(layers: _Layers) -> LoadedConfig:
    config = Config(
        models=[msgspec.convert(_values(model), ModelConfig) for model in layers.models],
        server=msgspec.convert(_values(layers.server), ServerConfig),
    )
    return LoadedConfig(
        config, _origins(layers.server), tuple(_origins(model) for model in layers.models)
    )


def _values(settings: Settings) -> dict[str, Any]:
    return {key: setting.value for key, setting in settings.items()}


def _origins(settings: Settings) -> dict[str, str]:
    return {key: setting.origin for key, setting in settings.items()}


def _unknown(path: str, key: str, known: Mapping[str, Field]) -> str:
    hint = nearest(key, known)
    if hint:
        return f"{path} is no setting; did you mean {hint}?"
    elsewhere = FIELDS.get(key)
    if elsewhere is not None:
        return f"{path} is no setting here; it belongs under {_place(elsewhere)}"
    return f"{path} is no setting; known are {', '.join(known)}"


def _unknown_top(key: str) -> str:
    if key in FIELDS:
        return f"{key} is no setting at the top; it belongs under {_place(FIELDS[key])}"
    hint = nearest(key, ["models", "server"])
    return f"{key} is no setting; " + (f"did you mean {hint}?" if hint else "known: models, server")


def _place(known: Field) -> str:
    return "server" if known.section == "server" else "an entry of models"
