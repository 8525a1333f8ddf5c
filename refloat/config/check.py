"""Whether right settings fit each other and this machine's files. Loads no model."""

import ipaddress
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from refloat.config.key_rights import KeyRightsError, read_key_rights
from refloat.config.keys import KeyFileError, read_api_keys
from refloat.config.ladder import LadderError, parse_ladder
from refloat.config.names import MAX_NAME_CHARACTERS, model_name
from refloat.config.schema import Config, ModelConfig, ServerConfig

#: Tokens in a KV block: 32 on CPU, 16 on GPU. The larger one makes the warning below cautious.
_LARGEST_BLOCK_TOKENS = 32


@dataclass(frozen=True, slots=True)
class Findings:
    """Sentences for people: what prevents a start, and what is merely odd."""

    errors: tuple[str, ...]
    warnings: tuple[str, ...]


def check(config: Config) -> Findings:
    """All findings about a configuration."""
    errors = [*_server_errors(config.server), *_name_errors(config.models)]
    warnings: list[str] = []
    for index, model in enumerate(config.models):
        at = f"models[{index}] ({model_name(model)})" if len(config.models) > 1 else "model"
        errors += [f"{at}: {error}" for error in _model_errors(model)]
        warnings += [f"{at}: {warning}" for warning in _model_warnings(model)]
    if not config.models:
        errors.append("no model is configured")
    return Findings(tuple(errors), tuple(warnings))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`. A name other than localhost is taken as reachable."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _server_errors(server: ServerConfig) -> Iterator[str]:
    if server.api_key_file is not None:
        try:
            read_api_keys(server.api_key_file)
        except KeyFileError as error:
            yield f"api_key_file: {error}"
    elif not server.keys and not is_loopback(server.host) and not server.allow_open:
        yield (
            f"host {server.host or '(empty)'} can be reached from other machines and no key is set: "
            "give --api-key-file, or --allow-open if that is meant"
        )
    try:
        read_key_rights(server.keys)
    except KeyRightsError as error:
        yield str(error)
    if server.memory_budget_bytes < server.max_body_bytes:
        yield (
            f"memory_budget_bytes ({server.memory_budget_bytes}) is smaller than max_body_bytes "
            f"({server.max_body_bytes}): such a body could never be taken"
        )
    for origin in server.cors_origins:
        if origin != "*" and not origin.startswith(("http://", "https://")):
            yield f"cors_origins: {origin!r} must begin with http:// or https://, or be *"


def _name_errors(models: list[ModelConfig]) -> Iterator[str]:
    names = [model_name(model) for model in models]
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{count} models are called {name!r}: give each a `name` of its own"
        if not name.strip() or not name.isprintable() or name != name.strip():
            yield f"name {name!r} must be printable text without white space around it"
        elif len(name) > MAX_NAME_CHARACTERS:
            yield f"name {name[:20]!r}… is longer than {MAX_NAME_CHARACTERS} characters"


def _model_errors(model: ModelConfig) -> Iterator[str]:
    for key, value in (("chat_template", model.chat_template), ("script", model.script)):
        if value is not None and not Path(value).is_file():
            yield f"{key}: there is no file {value}"
    if model.cache_dir is not None and Path(model.cache_dir).is_file():
        yield f"cache_dir: {model.cache_dir} is not a folder"
    if model.script is not None and model.model != "scripted":
        yield "script is for the scripted model only"
    if model.engine_options and model.model != "scripted":
        yield "engine_options are for the scripted model only"
    yield from _ladder_errors(model)
    if not model.device.strip():
        yield "device is empty"
    context, cap = model.context_length, model.max_output_tokens
    if context is not None and cap is not None and cap >= context:
        yield (
            f"max_output_tokens ({cap}) leaves no room for a prompt within context_length ({context})"
        )


def _ladder_errors(model: ModelConfig) -> Iterator[str]:
    try:
        parse_ladder(model.ladder or [])
    except LadderError as error:
        yield str(error)


def _model_warnings(model: ModelConfig) -> Iterator[str]:
    if model.num_kv_blocks is not None and model.cache_size is not None:
        yield "num_kv_blocks is set, so cache_size has no effect"
    if model.num_kv_blocks is not None and model.context_length is not None:
        held = model.num_kv_blocks * _LARGEST_BLOCK_TOKENS
        if held < model.context_length:
            yield (
                f"num_kv_blocks ({model.num_kv_blocks}) holds at most {held} tokens, so the context "
                f"that is served is shorter than context_length ({model.context_length})"
            )
    if model.cache_dir is not None and "CACHE_DIR" in model.plugin_config:
        yield "plugin_config sets CACHE_DIR, so cache_dir has no effect"
