"""One worker process on a raw socketpair, driven as the gateway drives it, message by message."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from refloat.scripted.tokens import ScriptedTokenizer
from refloat.wire.messages import (
    PROTOCOL_VERSION,
    Add,
    Cancel,
    Configure,
    EngineSpec,
    FromWorker,
    Hello,
    Loaded,
    Output,
    Probe,
    Refused,
    SamplingParams,
    Step,
    ToWorker,
    pack_ids,
)
from refloat.wire.pipe import EndOfLink, Pipe
from refloat.wire.progress import ProgressReader

DEADLINE_S = 30.0
T = TypeVar("T")


class Driver:
    """The gateway's end of one worker."""

    def __init__(self, *, orphan: bool = False) -> None:
        ours, theirs = socket.socketpair()
        self.progress = ProgressReader()
        if orphan:
            ours.close()
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "refloat.worker",
                "--link-fd", str(theirs.fileno()), "--progress-fd", str(self.progress.fd),
            ],
            pass_fds=(theirs.fileno(), self.progress.fd),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        theirs.close()
        self._pipe = None if orphan else Pipe[FromWorker](ours.detach(), FromWorker)

    @property
    def pipe(self) -> Pipe[FromWorker]:
        assert self._pipe is not None, "started without a gateway"
        return self._pipe

    def receive(self) -> FromWorker | EndOfLink:
        message = self.pipe.recv(DEADLINE_S)
        assert message is not None, "the worker said nothing in time"
        return message

    def expect(self, kind: type[T]) -> T:
        message = self.receive()
        assert isinstance(message, kind), message
        return message

    def send(self, message: ToWorker) -> None:
        self.pipe.send(message)

    def configure(self, version: int = PROTOCOL_VERSION, **fields: Any) -> None:
        spec: dict[str, Any] = {"engine": "scripted", "model_path": "", **fields}
        self.expect(Hello)
        self.send(Configure(version, 1, EngineSpec(**spec)))

    def load(self, **fields: Any) -> Loaded:
        self.configure(**fields)
        return self.expect(Loaded)

    def probe(self, count: int = 4) -> None:
        self.send(Probe(pack_ids(list(b"probe me")), count))

    def add(
        self,
        generation: int,
        prompt: list[int],
        *,
        emitted: list[int] | None = None,
        attempt: int = 1,
        **params: Any,
    ) -> None:
        emitted = emitted or []
        settings: dict[str, Any] = {"max_tokens": 100, "temperature": 0.0, **params}
        sampling = SamplingParams(**settings)
        tokens = pack_ids(prompt + emitted)
        self.send(Add(generation, attempt, tokens, len(emitted), sampling))

    def cancel(self, generation: int, attempt: int = 1) -> None:
        self.send(Cancel(generation, attempt))

    def until_ended(self, *generations: int) -> dict[int, list[Output]]:
        """All outputs until each of these generations had its end."""
        outputs: dict[int, list[Output]] = {}
        left = set(generations)
        while left:
            for output in self.expect(Step).outputs:
                outputs.setdefault(output.generation, []).append(output)
                if output.ended is not None:
                    left.discard(output.generation)
        return outputs

    def refusal(self) -> Refused:
        while True:
            message = self.receive()
            if isinstance(message, Refused):
                return message
            assert isinstance(message, Step), message

    def wait(self) -> int:
        """The exit code (negative: the signal)."""
        return self.process.wait(DEADLINE_S)

    def stderr(self) -> bytes:
        """All it wrote to stderr; once it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def kill(self) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        if self._pipe is not None:
            self._pipe.close()
        self.progress.close()


StartWorker = Callable[..., Driver]


def ids_of(outputs: list[Output]) -> list[int]:
    return [token for output in outputs for token in output.ids]


@pytest.fixture
def start_worker() -> Iterator[StartWorker]:
    drivers: list[Driver] = []

    def start(*, orphan: bool = False) -> Driver:
        drivers.append(Driver(orphan=orphan))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.kill()


@pytest.fixture
def worker(start_worker: StartWorker) -> Driver:
    return start_worker()


@pytest.fixture
def tokens() -> ScriptedTokenizer:
    from refloat.scripted.script import Script

    return ScriptedTokenizer(Script())
