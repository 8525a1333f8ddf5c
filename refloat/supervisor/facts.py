"""What is true of a model once prep and a worker have stood up. Pure."""

from refloat.config.schema import ModelConfig
from refloat.models.manifest import Manifest
from refloat.supervisor.fleet import ModelFacts
from refloat.supervisor.slots import slots_for
from refloat.wire.messages import CacheFacts, Capabilities, EngineSpec
from refloat.wire.prep_messages import PrepReady

_FINGERPRINT_DIGITS = 12


def build_facts(
    config: ModelConfig,
    manifest: Manifest,
    prep: PrepReady,
    capabilities: Capabilities,
    cache: CacheFacts | None,
    *,
    spec: EngineSpec,
    context_limit: int,
    probe_key: str,
) -> ModelFacts:
    """Facts for everybody. `context_limit` is the configured or the model's own; what the cache
    cannot hold is not advertised. `spec` is the worker's, which may be on a safer rung."""
    capacity = context_limit if cache is None else cache.num_blocks * cache.block_size
    return ModelFacts(
        context_length=min(context_limit, capacity),
        vocab_size=prep.vocab_size,
        eos_token_ids=manifest.eos_token_ids or prep.eos_token_ids,
        bos_token_id=prep.bos_token_id if manifest.bos_token_id is None else manifest.bos_token_id,
        sampling=manifest.sampling,
        fingerprint=f"fp_{probe_key[:_FINGERPRINT_DIGITS]}",
        capabilities=capabilities,
        cache=cache,
        max_num_seqs=min(slots_for(spec, cache), capabilities.capacity),
        max_output_tokens=config.max_output_tokens,
        chat_unavailable=prep.chat_unavailable,
        template_text=prep.template_text,
        tool_parser=config.tool_parser,
        reasoning_parser=config.reasoning_parser,
    )
