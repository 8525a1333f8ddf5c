"""A model folder → its manifest, from its files alone. Loads nothing and imports no engine."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import msgspec

from refloat.models.dimensions import (
    Dimensions,
    read_dimensions,
    read_gguf_dimensions,
    token_id,
    token_ids,
)
from refloat.models.error import IncompleteFolderError, ModelError
from refloat.models.fingerprint import HashCache, model_hash
from refloat.models.ir import check_ir, has_recurrent_state
from refloat.models.manifest import MANIFEST_VERSION, Manifest, SamplingDefaults
from refloat.models.progress import Progress, ProgressSink, Stage, ignore_progress

MODEL_XML = "openvino_model.xml"
TOKENIZER_XML = "openvino_tokenizer.xml"
DETOKENIZER_XML = "openvino_detokenizer.xml"
MANIFEST_FILE = "manifest.json"

#: Files that decide what comes out. Read-me files, licences and our own manifest do not.
_HASHED_SUFFIXES = frozenset({".xml", ".bin", ".json", ".jinja", ".txt", ".model"})
_NOT_HASHED = frozenset({MANIFEST_FILE, "entry.json", "README.txt", "LICENSE.txt", "NOTICE.txt"})

_MAX_JSON_BYTES = 16 * 1024 * 1024


def inspect_folder(
    folder: Path,
    *,
    source: str,
    hashes: HashCache,
    context_length: int | None = None,
    progress: ProgressSink = ignore_progress,
) -> Manifest:
    """Describe a folder with OpenVINO IR.

    The context length is the given one, else from `manifest.json`, `config.json` or `gguf.json`,
    else `None`. Raises `IncompleteFolderError` for a folder that cannot work as it is.
    """
    if not (folder / MODEL_XML).is_file():
        raise IncompleteFolderError(_why_no_ir(folder))
    for name, what in ((TOKENIZER_XML, "tokenizer"), (DETOKENIZER_XML, "detokenizer")):
        if not (folder / name).is_file():
            raise IncompleteFolderError(
                f"{folder} has no {what} ({name}): text cannot be served without it; export the "
                "model with its tokenizer, or add it with `convert_tokenizer --with-detokenizer`"
            )
        check_ir(folder / name)
    graph = check_ir(folder / MODEL_XML)
    config = read_json(folder / "config.json")
    gguf = read_gguf_dimensions(read_json(folder / "gguf.json"))
    generation = read_json(folder / "generation_config.json")
    dimensions = read_dimensions(config)
    kept = _own_manifest(folder)
    return Manifest(
        version=MANIFEST_VERSION,
        source=source,
        model_hash=_hash(folder, hashes, progress),
        context_length=_context(context_length, kept, dimensions, gguf),
        eos_token_ids=_eos(generation, dimensions, gguf),
        bos_token_id=_bos(generation, dimensions, gguf),
        sampling=read_sampling(generation),
        architecture=dimensions.architecture or gguf.architecture,
        hybrid=dimensions.hybrid or has_recurrent_state(graph),
        kv_bytes_per_token=dimensions.kv_bytes_per_token or gguf.kv_bytes_per_token,
        weights_bytes=(folder / MODEL_XML).with_suffix(".bin").stat().st_size,
        engine_versions=kept.engine_versions if kept else {},
    )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty if there is no such file. Raises `IncompleteFolderError`."""
    try:
        if path.stat().st_size > _MAX_JSON_BYTES:
            raise IncompleteFolderError(f"{path} is larger than {_MAX_JSON_BYTES} bytes")
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise IncompleteFolderError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise IncompleteFolderError(f"{path} is no valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise IncompleteFolderError(f"{path} does not hold a JSON object")
    return cast("dict[str, Any]", value)


def read_sampling(generation: dict[str, Any]) -> SamplingDefaults:
    """Defaults from `generation_config.json`, only where it says `do_sample: true`.

    False or absent leaves OpenAI's defaults (temperature 1): such a file does not mean that chats
    should be greedy, most often nobody thought about it.
    """
    if generation.get("do_sample") is not True:
        return SamplingDefaults()
    top_k = token_id(generation.get("top_k"))
    return SamplingDefaults(
        temperature=_number(generation, "temperature", 0.0, 2.0),
        top_p=_number(generation, "top_p", 0.0, 1.0),
        top_k=top_k or None,
        min_p=_number(generation, "min_p", 0.0, 1.0),
        repetition_penalty=_number(generation, "repetition_penalty", 0.01, 2.0),
    )


def hashed_files(folder: Path) -> list[Path]:
    """The files of a folder that decide what comes out, by name."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix in _HASHED_SUFFIXES and path.name not in _NOT_HASHED and path.is_file()
    )


def _hash(folder: Path, hashes: HashCache, progress: ProgressSink) -> str:
    files = hashed_files(folder)
    total = sum(path.stat().st_size for path in files)
    done = 0

    def read(count: int) -> None:
        nonlocal done
        done += count
        progress(Progress(Stage.HASH, f"checking {folder.name}", done, total))

    try:
        digest = model_hash(files, hashes, read)
    except OSError as error:
        raise ModelError(f"{error.filename or folder} cannot be read: {error.strerror}") from error
    hashes.save()
    return digest


def _context(
    given: int | None, kept: Manifest | None, dimensions: Dimensions, gguf: Dimensions
) -> int | None:
    stated = (
        given,
        kept.context_length if kept else None,
        dimensions.context_length,
        gguf.context_length,
    )
    return next((value for value in stated if value), None)


def _eos(generation: dict[str, Any], dimensions: Dimensions, gguf: Dimensions) -> tuple[int, ...]:
    stated: Iterable[tuple[int, ...]] = (
        token_ids(generation.get("eos_token_id")),
        dimensions.eos_token_ids,
        gguf.eos_token_ids,
    )
    return next((ids for ids in stated if ids), ())


def _bos(generation: dict[str, Any], dimensions: Dimensions, gguf: Dimensions) -> int | None:
    stated = (
        token_id(generation.get("bos_token_id")),
        dimensions.bos_token_id,
        gguf.bos_token_id,
    )
    return next((value for value in stated if value is not None), None)


def _own_manifest(folder: Path) -> Manifest | None:
    """The manifest of a conversion of ours; another program's file of that name is not ours to read."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST_FILE).read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError):
        return None
    return manifest if manifest.version == MANIFEST_VERSION else None


def _number(generation: dict[str, Any], key: str, low: float, high: float) -> float | None:
    value = generation.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if low <= value <= high else None


def _why_no_ir(folder: Path) -> str:
    """What a folder holds instead, and what to do about it."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        return f"{folder} cannot be read: {error.strerror}"
    missing = f"{folder} has no {MODEL_XML}"
    ggufs = [name for name in names if name.lower().endswith(".gguf")]
    if ggufs:
        return f"{missing}; to serve a GGUF file give its path: {folder / ggufs[0]}"
    if "openvino_language_model.xml" in names:
        return f"{missing}: it is a vision-language model, and those are not served yet"
    if any(name.endswith((".safetensors", ".pt", ".pth")) for name in names):
        return (
            f"{missing} but PyTorch weights: convert them first, with "
            "`optimum-cli export openvino --model ... FOLDER`"
        )
    return f"{missing}" + ("" if names else "; it is empty")
