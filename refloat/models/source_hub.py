"""Models from the Hugging Face hub: OpenVINO IR as it is, or one GGUF file to convert.

`HF_ENDPOINT` and `HF_TOKEN` are honoured. Without network the newest complete snapshot is used.
"""

import glob
import os
import shutil
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from refloat.models.error import ModelError
from refloat.models.inspect import MODEL_XML
from refloat.models.progress import Progress, ProgressSink, Stage
from refloat.models.source import Hub
from refloat.models.store import EntryKey, Store, folder_bytes

if TYPE_CHECKING:
    from huggingface_hub import HfApi

#: Seconds for the question what a repository holds.
LOOKUP_LIMIT_S = 20.0

_IR_SUFFIXES = frozenset({".xml", ".bin", ".json", ".jinja", ".txt", ".model"})
_REPORT_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class HubSnapshot:
    """Files of one repository at one commit, in the cache."""

    path: Path
    """A folder with IR, or a GGUF file."""
    revision: str

    @property
    def is_gguf(self) -> bool:
        """Whether `path` is a GGUF file."""
        return self.path.suffix.lower() == ".gguf"


@dataclass(frozen=True, slots=True)
class _Wanted:
    revision: str
    sizes: dict[str, int]
    """Bytes of each file that is needed, by its path in the repository."""
    gguf: str | None


def fetch_hub(source: Hub, store: Store, progress: ProgressSink) -> HubSnapshot:
    """The repository's files, fetched unless they are in the cache. Raises `ModelError`."""
    name = source.repo if source.file is None else f"{source.repo}:{source.file}"
    wanted = _look_up(source)
    if wanted is None:
        return _offline(name, store)
    key = EntryKey(name, wanted.revision, {})

    def build(staging: Path) -> None:
        store.require_space(sum(wanted.sizes.values()), f"fetching {source.repo}")
        with _reported(staging, source.repo, sum(wanted.sizes.values()), progress):
            _download(source.repo, wanted, staging)

    return _snapshot(store.obtain(key, build, progress, resumable=True), wanted.revision)


def _snapshot(entry: Path, revision: str) -> HubSnapshot:
    ggufs = sorted(entry.rglob("*.gguf"))
    return HubSnapshot(ggufs[0] if ggufs else entry, revision)


def _offline(name: str, store: Store) -> HubSnapshot:
    entry = store.newest(name)
    if entry is None:
        raise ModelError(
            f"the model hub ({_endpoint()}) cannot be reached, and {name} is not in the cache"
        )
    return _snapshot(entry.path, entry.record.source_hash)


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT") or "the default hub"


def _api() -> "HfApi":
    from huggingface_hub import HfApi
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, library_name="refloat")


def _look_up(source: Hub) -> _Wanted | None:
    """What to fetch; `None` when the hub cannot be asked at all."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(source.repo)
        info = _api().model_info(source.repo, files_metadata=True, timeout=LOOKUP_LIMIT_S)
    except GatedRepoError as error:
        raise ModelError(
            f"{source.repo} is gated: accept its terms on the hub and set HF_TOKEN"
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"there is no folder {source.repo} here and no such model on the hub "
            "(a private one needs HF_TOKEN)"
        ) from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status >= 500 or status == 429:
            return None
        raise ModelError(f"the hub refused {source.repo} with status {status}") from error
    except OfflineModeIsEnabled:
        return None
    except ValueError as error:
        raise ModelError(f"{source.repo} is no usable hub id: {error}") from error
    except _network_errors():
        return None
    if info.sha is None:
        raise ModelError(f"the hub names no commit for {source.repo}")
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or []}
    return _choose(source, info.sha, sizes)


def _network_errors() -> tuple[type[Exception], ...]:
    import httpx2

    return (httpx2.TransportError, OSError)


def _choose(source: Hub, revision: str, sizes: dict[str, int]) -> _Wanted:
    ggufs = sorted(name for name in sizes if name.lower().endswith(".gguf"))
    if source.file is not None:
        if source.file not in sizes:
            listed = ", ".join(ggufs[:8]) or "none"
            raise ModelError(f"{source.repo} has no file {source.file}; its GGUF files: {listed}")
        return _Wanted(revision, {source.file: sizes[source.file]}, source.file)
    if MODEL_XML in sizes:
        wanted = {name: size for name, size in sizes.items() if _belongs_to_ir(name)}
        return _Wanted(revision, wanted, None)
    if len(ggufs) == 1:
        return _Wanted(revision, {ggufs[0]: sizes[ggufs[0]]}, ggufs[0])
    if ggufs:
        raise ModelError(
            f"{source.repo} has {len(ggufs)} GGUF files: name one, as "
            f"{source.repo}:{ggufs[0]} (also: {', '.join(ggufs[1:8])})"
        )
    raise ModelError(
        f"{source.repo} holds neither OpenVINO IR ({MODEL_XML}) nor a GGUF file: convert it first, "
        f"with `optimum-cli export openvino --model {source.repo} FOLDER`"
    )


def _belongs_to_ir(name: str) -> bool:
    path = PurePosixPath(name)
    return len(path.parts) == 1 and path.suffix in _IR_SUFFIXES


def _download(repo: str, wanted: _Wanted, staging: Path) -> None:
    from huggingface_hub.errors import HfHubHTTPError

    try:
        _api().snapshot_download(  # pyright: ignore[reportUnknownMemberType]
            repo,
            revision=wanted.revision,
            local_dir=staging,
            # patterns are globs, and a file name may hold brackets
            allow_patterns=[glob.escape(name) for name in wanted.sizes],
        )
    except (HfHubHTTPError, *_network_errors()) as error:
        first_line = str(error).partition("\n")[0]
        raise ModelError(
            f"fetching {repo} failed, and goes on where it stopped next time: {first_line}"
        ) from error
    except ValueError as error:  # a name that leads out of the folder, for one
        first_line = str(error).partition("\n")[0]
        raise ModelError(f"{repo} cannot be fetched: {first_line}") from error
    shutil.rmtree(staging / ".cache", ignore_errors=True)
    for name, size in wanted.sizes.items():
        path = staging / name
        if not path.is_file() or (size and path.stat().st_size != size):
            path.unlink(missing_ok=True)
            raise ModelError(f"fetching {repo} failed: {name} did not arrive whole; try again")


@contextmanager
def _reported(folder: Path, repo: str, total: int, progress: ProgressSink) -> Generator[None]:
    """Report a folder's growth: true for every way in which the hub's client may write into it."""
    ended = threading.Event()

    def report() -> None:
        done = min(folder_bytes(folder), total)
        progress(Progress(Stage.DOWNLOAD, f"fetching {repo}", done, total))

    def watch() -> None:
        while not ended.wait(_REPORT_EVERY_S):
            report()

    watcher = threading.Thread(target=watch, name="refloat-download", daemon=True)
    report()
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    report()
