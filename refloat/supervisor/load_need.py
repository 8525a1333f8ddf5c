"""How much memory a load is expected to take, from the model's files and its settings. Pure.

Estimates, on the high side: they keep two loads apart that would not fit together, and refuse what
cannot fit at all. What a load really took is measured once it is done.
"""

from typing import NamedTuple

from refloat.models.manifest import Manifest
from refloat.wire.messages import EngineSpec

_MIB = 1 << 20
_GIB = 1 << 30

#: A worker before its model: interpreter, libraries, kernels.
_FIXED_BYTES = 256 * _MIB
#: The scripted engine is Python alone.
_SCRIPTED_BYTES = 32 * _MIB
#: Files are mapped and then repacked for the device: reported loads of 14B int4 models staged up to
#: twice the weights in host memory.
_WEIGHTS_FACTOR_ON_HOST = 1.5
_WEIGHTS_FACTOR_STAGED = 2.0
#: Of the cache that was asked for, what is still worth a load if no conversation's size is known.
_LEAST_CACHE_SHARE = 0.25
#: The engine's own choice of a cache (`engines/openvino_build.py`): as much as this, or two longest
#: conversations, but no more than a quarter of what is free.
_DEFAULT_CACHE_BYTES = _GIB
_DEFAULT_CONVERSATIONS = 2
_DEFAULT_SHARE = 4
#: Of the cache's size at 16 bit, by the precision that is set; scales included.
_PRECISION_SHARES = {"f32": 2.0, "u8": 0.6, "i8": 0.6, "u4": 0.4, "i4": 0.4}
_BLOCK_TOKENS_ON_HOST = 32
_BLOCK_TOKENS_ON_GPU = 16


class LoadNeed(NamedTuple):
    """Bytes. Where the cache lies, it is part of neither figure but comes on top."""

    host_bytes: int
    device_bytes: int
    cache_bytes: int
    least_cache_bytes: int
    """A smaller cache is of no use. 0 where the engine itself takes what is left."""
    is_cache_on_device: bool


def expected_need(spec: EngineSpec, manifest: Manifest, available_bytes: int) -> LoadNeed:
    """The need of a load. `available_bytes` of the host decide a cache that nobody set a size for."""
    on_gpu = "GPU" in spec.device.upper()
    cache_bytes, least_bytes = _cache(spec, manifest, available_bytes)
    if spec.engine == "scripted":  # a stand-in: it takes nothing, but says that it needs this
        if spec.cache_size_bytes is None:
            cache_bytes = least_bytes = 0
        host_bytes = _SCRIPTED_BYTES + manifest.weights_bytes
        return LoadNeed(host_bytes, 0, cache_bytes, least_bytes, is_cache_on_device=False)
    if not on_gpu:
        host_bytes = _FIXED_BYTES + int(_WEIGHTS_FACTOR_ON_HOST * manifest.weights_bytes)
        return LoadNeed(host_bytes, 0, cache_bytes, least_bytes, is_cache_on_device=False)
    staged = 0.0 if _is_weightless(spec) else _WEIGHTS_FACTOR_STAGED
    host_bytes = _FIXED_BYTES + int(staged * manifest.weights_bytes)
    return LoadNeed(
        host_bytes, manifest.weights_bytes, cache_bytes, least_bytes, is_cache_on_device=True
    )


def in_gb(count: int) -> str:
    """Bytes as people read them; GB are 2^30, as in `--cache-size`."""
    return f"{count / _GIB:.1f} GB"


def _cache(spec: EngineSpec, manifest: Manifest, available_bytes: int) -> tuple[int, int]:
    """What the cache takes, and what it may be reduced to."""
    each = _token_bytes(spec, manifest)
    conversation = each * spec.context_length
    useful = conversation * spec.max_num_seqs
    if spec.num_kv_blocks is not None:
        tokens = _BLOCK_TOKENS_ON_GPU if "GPU" in spec.device.upper() else _BLOCK_TOKENS_ON_HOST
        wanted = spec.num_kv_blocks * tokens * each
        return wanted, wanted
    if spec.cache_size_bytes is not None:
        wanted = min(spec.cache_size_bytes, useful) if useful else spec.cache_size_bytes
        least = conversation if conversation else int(wanted * _LEAST_CACHE_SHARE)
        return wanted, min(wanted, least)
    wanted = max(_DEFAULT_CACHE_BYTES, _DEFAULT_CONVERSATIONS * conversation)
    wanted = min(wanted, available_bytes // _DEFAULT_SHARE)
    return min(wanted, useful) if useful else wanted, 0


def _token_bytes(spec: EngineSpec, manifest: Manifest) -> int:
    at_16_bit = manifest.kv_bytes_per_token or 0
    usual = "f16" if "GPU" in spec.device.upper() else "u8"
    precision = str(spec.properties.get("KV_CACHE_PRECISION", usual)).lower()
    return int(at_16_bit * _PRECISION_SHARES.get(precision, 1.0))


def _is_weightless(spec: EngineSpec) -> bool:
    value = spec.properties.get("ENABLE_WEIGHTLESS", False)
    return value is True or str(value).upper() in ("YES", "TRUE", "1", "ON")
