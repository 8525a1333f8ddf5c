"""Stand-ins for what models come from: a hub on loopback, a conversion that copies, an own cache."""

import hashlib
import json
import shutil
import struct
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import pytest

from refloat.models import source_convert

DATA = Path(__file__).parents[2] / "data"

#: Copies a tiny model in place of converting; obeys what the "GGUF" says.
_CONVERT = """
import json, shutil, sys
from pathlib import Path
source, target = Path(sys.argv[1]), Path(sys.argv[2])
order = source.read_bytes().rpartition(b"order:")[2].decode()
with (source.parent / "conversions").open("a") as log:
    log.write("x")
print("chatter that is no JSON", flush=True)
print(json.dumps({"stage": "converting", "seconds": 0.1, "message": "qwen3"}), flush=True)
if order == "refuse":
    print(json.dumps({"stage": "failed", "seconds": 0.1, "error": "the engine wrote no network"}))
    sys.exit(71)
if order == "crash":
    import os
    os.abort()
if order == "hang":
    import threading
    threading.Event().wait()
target.mkdir()
for file in Path(DATA).iterdir():
    if file.name not in ("config.json", "generation_config.json"):
        shutil.copy(file, target)
(target / "gguf.json").write_text(json.dumps({"architecture": "qwen3", "context_length": 4096,
    "eos_token_ids": [2030, 2028], "block_count": 2, "head_count": 4, "head_count_kv": 2,
    "embedding_length": 64, "key_length": 32}))
"""


def gguf_bytes(architecture: str, order: str = "") -> bytes:
    """A GGUF header that names an architecture, and what the stand-in shall do with it."""
    key, value = b"general.architecture", architecture.encode()
    entry = struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(value)) + value
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry + b"order:" + order.encode()


@pytest.fixture
def gguf() -> Callable[..., bytes]:
    """Makes GGUF headers."""
    return gguf_bytes


@pytest.fixture(autouse=True)
def refloat_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `$REFLOAT_HOME`."""
    home = tmp_path / "home"
    monkeypatch.setenv("REFLOAT_HOME", str(home))
    return home


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A private copy of a complete model folder."""
    return Path(shutil.copytree(DATA / "tiny-llm", tmp_path / "tiny-llm"))


@pytest.fixture
def copying_convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes "GGUF" files whose conversion copies a tiny model, or does what the file says."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "copying_convert.py").write_text(
        _CONVERT.replace("DATA", repr(str(DATA / "tiny-llm")))
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(source_convert, "CONVERT_MODULE", "copying_convert")

    def make(order: str = "") -> Path:
        path = tmp_path / "ggufs" / "model.gguf"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gguf_bytes("qwen3", order))
        return path

    return make


@pytest.fixture
def edit_json() -> Callable[..., None]:
    """Changes keys of a JSON file; `None` removes one."""

    def edit(path: Path, **changes: object) -> None:
        value = json.loads(path.read_text())
        value.update(changes)
        path.write_text(json.dumps({k: v for k, v in value.items() if v is not None}))

    return edit


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> "Generator[HubStandIn]":
    """A model hub on loopback, to which `HF_ENDPOINT` points."""
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with HubStandIn() as stand_in:
        monkeypatch.setenv("HF_ENDPOINT", stand_in.endpoint)
        yield stand_in


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class HubStandIn:
    """Serves repositories held in memory. `with HubStandIn() as hub: hub.endpoint`."""

    repos: dict[str, dict[str, bytes]] = field(default_factory=dict[str, dict[str, bytes]])
    commit: str = COMMIT
    token: str | None = None
    """Asked for where set; a stranger gets 401 as for a repository that is not there."""
    gated: bool = False
    status: int | None = None
    """Answer everything with this instead."""
    cut_bytes: dict[str, int] = field(default_factory=dict[str, int])
    """Send only so much of a file, then close; one time."""
    missing: set[str] = field(default_factory=set[str])
    """Listed, but their content is not there."""
    requests: list[str] = field(default_factory=list[str])

    def __enter__(self) -> Self:
        hub = self

        class Handler(_Handler):
            stand_in = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def endpoint(self) -> str:
        """What `HF_ENDPOINT` is set to."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def fetched(self) -> list[str]:
        """Files whose content was asked for."""
        gets = [r for r in self.requests if r.startswith("GET /") and "/resolve/" in r]
        return [request.rpartition("/")[2] for request in gets]


def _etag(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    stand_in: HubStandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        hub, path = self.stand_in, unquote(urlsplit(self.path).path)
        hub.requests.append(f"{self.command} {path}")
        if hub.status is not None:
            return self._send(hub.status, b"{}")
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self._send(401, b"{}", **{"X-Error-Code": "RepoNotFound"})
        if hub.gated:
            return self._send(403, b"{}", **{"X-Error-Code": "GatedRepo"})
        if path.startswith("/api/models/"):
            return self._api(path.removeprefix("/api/models/"))
        return self._file(path.removeprefix("/"))

    def _api(self, path: str) -> None:
        owner, name, *rest = path.split("/")
        repo = f"{owner}/{name}"
        files = self.stand_in.repos.get(repo)
        if files is None:
            return self._send(404, b"{}", **{"X-Error-Code": "RepoNotFound"})
        if rest[:1] == ["tree"]:
            tree = [
                {"type": "file", "path": n, "size": len(c), "oid": _etag(c)}
                for n, c in files.items()
            ]
            return self._json(tree)
        siblings = [{"rfilename": n, "size": len(c), "blobId": _etag(c)} for n, c in files.items()]
        return self._json({"id": repo, "sha": self.stand_in.commit, "siblings": siblings})

    def _file(self, path: str) -> None:
        repo, _, rest = path.partition("/resolve/")
        name = rest.partition("/")[2]
        content = self.stand_in.repos.get(repo, {}).get(name)
        if content is None or name in self.stand_in.missing:
            return self._send(404, b"", **{"X-Error-Code": "EntryNotFound"})
        headers = {"ETag": f'"{_etag(content)}"', "X-Repo-Commit": self.stand_in.commit}
        start = 0
        if wanted := self.headers.get("Range"):
            start = int(wanted.removeprefix("bytes=").partition("-")[0])
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        if self.command == "GET" and name in self.stand_in.cut_bytes:
            return self._cut(content, self.stand_in.cut_bytes.pop(name), headers)
        return self._send(206 if start else 200, content[start:], **headers)

    def _cut(self, content: bytes, count: int, headers: dict[str, str]) -> None:
        self.send_response(200)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:count])
        self.close_connection = True

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), **{"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
