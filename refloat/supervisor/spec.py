"""From a model's settings and manifest to what its two children are told. Pure but for the log."""

from pathlib import Path
from typing import Any

from refloat.config.home import compiled_dir
from refloat.config.schema import ModelConfig
from refloat.models.manifest import Manifest
from refloat.observe.log import get_logger
from refloat.supervisor.slots import USUAL_SEQS
from refloat.wire.messages import PROTOCOL_VERSION, EngineSpec
from refloat.wire.prep_messages import PrepConfigure

_log = get_logger(__name__)

_GIB = 2**30
SCRIPTED = "scripted"


def context_limit(config: ModelConfig, manifest: Manifest) -> int | None:
    """Tokens of prompt and answer by configuration or manifest; `None`: nobody knows."""
    return config.context_length or manifest.context_length


def build_spec(config: ModelConfig, manifest: Manifest, model_path: str) -> EngineSpec:
    """Everything a worker is told. A relative `model_path` is made absolute."""
    return EngineSpec(
        engine=SCRIPTED if is_scripted(config) else "openvino_cb",
        model_path=_absolute(model_path),
        device=config.device,
        properties=_properties(config),
        num_kv_blocks=config.num_kv_blocks,
        cache_size_bytes=None if config.cache_size is None else int(config.cache_size * _GIB),
        max_num_seqs=config.max_num_seqs or USUAL_SEQS,
        is_sized_by_cache=config.max_num_seqs is None,
        max_num_batched_tokens=config.max_num_batched_tokens,
        inter_token_target_s=(config.inter_token_target_ms or 0.0) / 1000,
        enable_prefix_caching=config.enable_prefix_caching,
        context_length=context_limit(config, manifest) or 0,
        eos_token_ids=manifest.eos_token_ids,
        options=_options(config),
        faults=tuple(config.faults),
    )


def build_prep_configure(config: ModelConfig, model_path: str) -> PrepConfigure:
    """Everything prep is told."""
    template = config.chat_template
    return PrepConfigure(
        version=PROTOCOL_VERSION,
        model_path=_absolute(model_path),
        tokenizer=SCRIPTED if is_scripted(config) else "openvino",
        chat_template_file=None if template is None else _absolute(template),
        options=_options(config),
    )


def is_scripted(config: ModelConfig) -> bool:
    """Whether the model is the scripted one, which has no files."""
    return config.model == SCRIPTED


def log_spec(name: str, config: ModelConfig, spec: EngineSpec) -> None:
    """Tell the operator what the engine is given, and which of it nobody asked for."""
    added = sorted(spec.properties.keys() - config.plugin_config.keys())
    _log.info(
        "engine_spec",
        model=name,
        engine=spec.engine,
        device=spec.device,
        properties=spec.properties,
        added_by_default=added,
    )


def _properties(config: ModelConfig) -> dict[str, Any]:
    properties = dict(config.plugin_config)
    if config.cache_dir is not None:
        properties.setdefault("CACHE_DIR", _absolute(config.cache_dir))
    if "GPU" in config.device.upper():
        # Compiled kernels survive a rebuild; weights are not staged in host memory.
        properties.setdefault("CACHE_DIR", str(compiled_dir()))
        properties.setdefault("ENABLE_WEIGHTLESS", True)
    return properties


def _options(config: ModelConfig) -> dict[str, Any]:
    options = dict(config.engine_options)
    if config.script is not None:
        options["script"] = _absolute(config.script)
    return options


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute()) if path else ""
