"""One prep process on a raw socketpair, driven as the gateway drives it, message by message."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from refloat.wire.messages import PROTOCOL_VERSION, Hello, unpack_ids
from refloat.wire.pipe import Pipe
from refloat.wire.prep_messages import FromPrep, PrepConfigure, PrepReady, Tokens

DEADLINE_S = 30.0
T = TypeVar("T")


class PrepDriver:
    """The gateway's end of one prep process."""

    def __init__(self, *, orphan: bool = False) -> None:
        self.has_ended = False
        ours, theirs = socket.socketpair()
        if orphan:
            ours.close()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "refloat.prep", "--link-fd", str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        theirs.close()
        self._pipe = None if orphan else Pipe[FromPrep](ours.detach(), FromPrep)

    @property
    def pipe(self) -> Pipe[FromPrep]:
        """Our end of the link."""
        assert self._pipe is not None
        return self._pipe

    def expect(self, kind: type[T]) -> T:
        """The next message, which has to be of this type."""
        message = self.pipe.recv(DEADLINE_S)
        assert isinstance(message, kind), message
        return message

    def configure(self, model: Path | str = "", tokenizer: str = "scripted", **more: Any) -> None:
        """Hear its `Hello` and say which model to open."""
        hello = self.expect(Hello)
        assert (hello.version, hello.program) == (PROTOCOL_VERSION, "prep")
        assert hello.pid == self.process.pid
        self.pipe.send(PrepConfigure(PROTOCOL_VERSION, str(model), tokenizer, **more))

    def open(self, model: Path | str = "", tokenizer: str = "scripted", **more: Any) -> PrepReady:
        """Configure it and hear that it is ready."""
        self.configure(model, tokenizer, **more)
        return self.expect(PrepReady)

    def ids(self, job: Any) -> list[list[int]]:
        """Send a job and unpack its ids."""
        self.pipe.send(job)
        answer = self.expect(Tokens)
        assert answer.job == job.job
        return [unpack_ids(packed) for packed in answer.ids]

    def ended(self) -> tuple[int, str]:
        """Its exit code and all it wrote on stderr, once it has left by itself."""
        out, err = self.process.communicate(timeout=DEADLINE_S)
        assert out == b""
        self.has_ended = True
        return self.process.returncode, err.decode()

    def close(self) -> None:
        """End it, whatever state it is in."""
        if self._pipe is not None:
            self._pipe.close()
        if not self.has_ended:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def start_prep() -> Iterator[Callable[..., PrepDriver]]:
    """Starts prep processes; they end with the test."""
    drivers: list[PrepDriver] = []

    def start(**more: Any) -> PrepDriver:
        drivers.append(PrepDriver(**more))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()
