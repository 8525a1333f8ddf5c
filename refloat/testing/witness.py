"""Takes a server at its word: whenever it says it is ready, a request is sent to see whether it is.

A readiness lie is a 200 from a readiness route at whose moment a request failed. Whether that request
had to wait is another question: ready means served, not served at once.
"""

import http.client
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from refloat.testing.client import Client
from refloat.testing.outcome import CHAT, Outcome, ask

_OUTSTANDING = 4


class ReadinessWitness:
    """Polls in a thread from `__enter__` to `__exit__`; then everything it asked has an answer."""

    def __init__(
        self,
        client: Client,
        body: Mapping[str, Any],
        *,
        path: str = CHAT,
        every_s: float = 0.05,
    ) -> None:
        self._client = client
        self._body = body
        self._path = path
        self._every_s = every_s
        self._routes = ("/v2/health/ready", f"/v2/models/{body['model']}/ready")
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(_OUTSTANDING, thread_name_prefix="witness")
        self._thread = threading.Thread(target=self._watch, name="witness", daemon=True)
        self._asked: list[Future[Outcome]] = []
        self._troubles: list[str] = []
        self.ready = 0
        """Answers that said ready."""
        self.not_ready = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._pool.shutdown(wait=True)

    @property
    def lies(self) -> list[str]:
        """What went wrong when it had just said ready. Complete after `__exit__`."""
        outcomes = [future.result() for future in self._asked if future.done()]
        return self._troubles + [o.describe() for o in outcomes if not o.is_right]

    def _watch(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                states = [self._client.get(route).status for route in self._routes]
            except (OSError, http.client.HTTPException) as error:
                self._troubles.append(f"no answer to whether it is ready: {error}")
                continue
            if 200 not in states:
                self.not_ready += 1
                continue
            self.ready += 1
            if sum(not future.done() for future in self._asked) < _OUTSTANDING:
                self._asked.append(self._pool.submit(ask, self._client, self._body, self._path))
