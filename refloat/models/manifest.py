"""What is known of a model without loading it. Written beside a converted model, else derived.

The gateway needs these before any child runs: the context length decides 400s, the EOS ids end
generations, the hashes name what a probe's record belongs to.
"""

from typing import Any

import msgspec

#: Raised whenever a conversion would come out differently; older cache entries are then rebuilt.
MANIFEST_VERSION = 1


class SamplingDefaults(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `generation_config.json` sets; `None`: OpenAI's default applies."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """One model folder, as far as it can be described from its files."""

    version: int
    source: str
    """Where it came from (`smollm2`, a hub id, a file's name); never a path of the build machine."""
    model_hash: str
    """sha256 over the names and contents of the files that decide what comes out."""
    context_length: int | None
    """Tokens of prompt and answer together; `None`: not known, an option must give it."""
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None
    sampling: SamplingDefaults = SamplingDefaults()
    architecture: str | None = None
    hybrid: bool = False
    """Has linear-attention or other recurrent layers (from config.json)."""
    kv_bytes_per_token: int | None = None
    """By the shapes in config.json, at f16; an estimate until the engine has allocated its cache."""
    weights_bytes: int = 0
    engine_versions: dict[str, str] = {}
    extra: dict[str, Any] = {}
