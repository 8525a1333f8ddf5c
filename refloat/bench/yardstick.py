"""Talks to the bare engine loop (`bare.py`) in its own process."""

import json
import subprocess
import sys
from types import TracebackType
from typing import Any, NamedTuple, Self


class BareResult(NamedTuple):
    """One round of the bare loop."""

    wall_s: float
    tokens: int
    ttft_s: float


class BareEngine:
    """The yardstick process; a context manager."""

    def __init__(self, folder: str, spec: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "refloat.bench.bare", folder, json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = int(self._answer()["pid"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, prompts: list[list[int]], max_tokens: int) -> BareResult:
        """Run these prompts at once, each to `max_tokens` tokens."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"prompts": prompts, "max_tokens": max_tokens}) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        return BareResult(answer["wall_s"], answer["tokens"], answer["ttft_s"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the bare engine ended; its last words are on stderr")
        answer: dict[str, Any] = json.loads(line)
        return answer
