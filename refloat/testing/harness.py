"""A private Refloat server in a process of its own, for tests, drills and benchmarks.

    with Server.start(["scripted"]) as server:
        print(server.client().chat("Hi").text)

Users' own tests may do the same, with fault plans, to see how their agents bear a crash.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import psutil
import yaml

from refloat.testing.client import Client
from refloat.testing.patience import DEFAULT_DEADLINE_S, eventually

_KEPT_LINES = 20_000


class _PlainDumper(yaml.SafeDumper):
    """Writes what occurs twice twice: a configuration has no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _is_over(process: psutil.Process) -> bool:
    """Whether it has ended. An orphan stays in the table of processes until init looks, which may take
    seconds, and is nobody's business by then."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class ServerEndedError(AssertionError):
    """The server left before it could be used; the message holds its last words."""


class Server:
    """One running `refloat serve`, on a port of its own choosing."""

    def __init__(
        self, process: subprocess.Popen[bytes], folder: "tempfile.TemporaryDirectory[str]"
    ) -> None:
        self.process = process
        self._folder = folder
        self._url = ""
        self.log: deque[dict[str, Any]] = deque(maxlen=_KEPT_LINES)
        self._reader = threading.Thread(target=self._read, name="refloat-log", daemon=True)
        self._reader.start()

    @classmethod
    def start(
        cls,
        arguments: Sequence[str] = ("scripted",),
        *,
        config: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        ready: bool = True,
        log_level: str = "debug",  # the address is logged at info: nothing above that works
    ) -> Self:
        """Start a server from arguments, or from a configuration (as in the YAML file).

        Returns once it listens and, unless `ready` is false, says it is ready.
        """
        command = [sys.executable, "-m", "refloat.cli.main", "serve", "--port", "0"]
        command += ["--log-format", "json", "--log-level", log_level]
        folder = tempfile.TemporaryDirectory(prefix="refloat-")
        if config is not None:
            path = Path(folder.name) / "refloat.yaml"
            path.write_text(yaml.dump(dict(config), Dumper=_PlainDumper))
            command += ["--config", str(path)]
        else:
            command += arguments
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )
        server = cls(process, folder)
        try:
            eventually(server._address, what="the server to listen", deadline_s=120)
            if ready:
                server.wait_ready()
        except BaseException:
            server.close()
            raise
        return server

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """SIGKILL what still runs, and leave nothing behind. Idempotent."""
        if self.process.poll() is None:
            self.kill()
        self._reader.join(timeout=DEFAULT_DEADLINE_S)
        if self.process.stderr is not None:
            self.process.stderr.close()
        self._folder.cleanup()

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        return self._address()

    def client(self, *, api_key: str | None = None, timeout_s: float = 60.0) -> Client:
        """A client of this server."""
        return Client(self.url, api_key=api_key, timeout_s=timeout_s)

    def wait_ready(self, deadline_s: float = 120.0) -> None:
        """Until `/v2/health/ready` says 200."""

        def is_ready() -> bool:
            self._check_running()
            try:
                return self.client(timeout_s=5).get("/v2/health/ready").status == 200
            except OSError:  # it is going down: the next look says why
                return False

        eventually(is_ready, deadline_s=deadline_s, what="the server to be ready")

    def worker_pid(self, model: str | None = None) -> int | None:
        """Process id of a model's serving worker (the only model's, if none is named); `None`: it
        has none."""
        models: list[dict[str, Any]] = self.client(timeout_s=10).get("/health").json()["models"]
        chosen = [m for m in models if model is None or m["name"] == model]
        for worker in chosen[0]["workers"]:
            if worker.get("pid") and worker.get("role") != "spare":
                return int(worker["pid"])
        return None

    def children(self) -> list[psutil.Process]:
        """Its living child processes."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def kill_worker(self, model: str | None = None) -> int:
        """SIGKILL a model's worker, as the kernel's OOM killer would; its process id."""
        pid = eventually(lambda: self.worker_pid(model), what="a worker")
        os.kill(pid, signal.SIGKILL)
        return pid

    def terminate(self, deadline_s: float = 60.0) -> int:
        """SIGTERM, then the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=deadline_s)

    def kill(self) -> None:
        """SIGKILL the gateway; its children have to notice by themselves."""
        children = self.children()
        self.process.kill()
        self.process.wait(timeout=DEFAULT_DEADLINE_S)
        eventually(lambda: all(map(_is_over, children)), what="the children to end")

    def events(self, name: str) -> list[dict[str, Any]]:
        """Log entries of one event so far."""
        return [entry for entry in list(self.log) if entry.get("event") == name]

    def log_text(self, last: int = 60) -> str:
        """The end of its log, for a failure's message."""
        return "\n".join(json.dumps(entry) for entry in list(self.log)[-last:])

    def _address(self) -> str:
        """Kept once it is known: the log forgets its oldest lines."""
        self._check_running()
        for entry in () if self._url else self.events("listening"):
            self._url = str(entry["url"])
        return self._url

    def _check_running(self) -> None:
        code = self.process.poll()
        if code is not None:
            self._reader.join(timeout=DEFAULT_DEADLINE_S)
            raise ServerEndedError(f"the server ended with exit code {code}:\n{self.log_text()}")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            text = line.decode(errors="replace").rstrip("\n")
            try:
                entry = msgspec.json.decode(text, type=dict[str, Any])
            except msgspec.DecodeError:
                entry = {"event": "raw", "text": text}
            self.log.append(entry)
