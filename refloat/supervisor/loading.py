"""When one slot's worker is told to load: once it is wanted, and once the host has memory for it.

Until then it has said Hello and waits; a spare that is to be primed does so meanwhile. The waiting is
asked for again at every look of the slot, and each worker is told once.
"""

import time
from collections.abc import Callable

import msgspec

from refloat.models.manifest import Manifest
from refloat.observe.log import get_logger
from refloat.supervisor.child import Child
from refloat.supervisor.exits import Fault
from refloat.supervisor.load_gate import LoadGate
from refloat.supervisor.load_need import LoadNeed, expected_need, in_gb
from refloat.supervisor.load_rules import Granted, Refused, Waiting
from refloat.supervisor.spec_source import SpecSource
from refloat.wire.faults import FaultKind
from refloat.wire.messages import PROTOCOL_VERSION, Configure, EngineSpec, Prime

_log = get_logger(__name__)

#: Between two askings of the gate, which other servers read and write, too.
_ASK_AGAIN_S = 0.2


def _always() -> bool:
    return True


def _nothing() -> None:
    pass


class Loading:
    """For one slot. Without a gate every load is let in."""

    def __init__(
        self,
        model: str,
        source: SpecSource,
        *,
        manifest: Manifest | None = None,
        gate: LoadGate | None = None,
        is_wanted: Callable[[], bool] = _always,
        on_change: Callable[[], None] = _nothing,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._source = source
        self._manifest = manifest
        self._gate = gate
        self._is_wanted = is_wanted
        self._on_change = on_change
        self._clock = clock
        self._child: Child | None = None
        """Has said Hello and was not told to load."""
        self._told_id = 0
        """Of the last worker that was told to load."""
        self._reserved: int | None = None
        self._asked_s = float("-inf")
        self._proved: dict[int, int] = {}
        """Rungs of the ladder on which a worker was ready once, each with the tokens of a step that
        it had found to fit, where it had to find out."""
        self.spec = source.current
        """What the last worker that was told to load was told."""
        self.waits_for: str | None = None
        """Why it is not loading yet, for people."""
        self.notice: str | None = None
        """What it was given less of than its settings say, for people."""
        self.refusal: Fault | None = None
        """Why the last load was not let in."""

    @property
    def is_waiting(self) -> bool:
        """Whether a worker was not told to load yet."""
        return self._child is not None

    def was_told(self, child: Child) -> bool:
        """Whether this worker was told to load: before that it understands nothing else."""
        return child.worker_id == self._told_id

    @property
    def next_spec(self) -> EngineSpec:
        """What the worker of the moment was told to load, or will be."""
        return self._due() if self.is_waiting else self.spec

    def begin(self, child: Child) -> None:
        """A worker has said Hello."""
        self._child = child
        self._asked_s = float("-inf")
        self.refusal, self.notice = None, None
        spec = self._source.current
        if not self._is_wanted():
            child.send(Prime(spec.engine, spec.model_path))
            self._wait("is primed and waits until it is needed")
        self.go_on()

    def go_on(self) -> Fault | None:
        """Tell the waiting worker to load, if it may; why it may not at all."""
        child = self._child
        if child is None or self.refusal is not None:
            return self.refusal
        if not self._is_wanted():
            return None
        now_s = self._clock()
        if now_s - self._asked_s < _ASK_AGAIN_S:
            return None
        self._asked_s = now_s
        spec = self._admitted(child)
        if spec is not None:
            has_waited = self.waits_for is not None
            self._child, self.waits_for = None, None
            self.spec, self._told_id = spec, child.worker_id
            child.send(Configure(PROTOCOL_VERSION, child.worker_id, spec))
            if has_waited:
                self._on_change()
        return self.refusal

    def proved(self, step_tokens: int) -> None:
        """The worker is ready: what it needed was there once, and may be again; and what it measured
        to know how much a step may compute need not be measured again, in every recovery."""
        if self.spec.inter_token_target_s:
            self._proved[self.spec.rung] = step_tokens
        else:
            self._proved.setdefault(self.spec.rung, 0)
        self.over()

    def over(self) -> None:
        """The worker is ready, or gone: nothing is reserved for it any more."""
        self._child, self.waits_for = None, None
        reserved, self._reserved = self._reserved, None
        if reserved is not None and self._gate is not None:
            self._gate.done(reserved)

    def _due(self) -> EngineSpec:
        """What the next worker has to be told."""
        spec = self._source.current
        step_tokens = self._proved.get(spec.rung, 0)
        if not spec.inter_token_target_s or not step_tokens:
            return spec
        return msgspec.structs.replace(
            spec, max_num_batched_tokens=step_tokens, inter_token_target_s=0.0
        )

    def _admitted(self, child: Child) -> EngineSpec | None:
        """The spec to load, or `None`: it waits, or was refused."""
        spec = self._due()
        if self._gate is None or self._manifest is None:
            return spec
        need = expected_need(spec, self._manifest, self._gate.available_bytes())
        answer = self._gate.ask(self._model, spec.device, need, child.pid)
        match answer:
            case Granted():
                self._reserved = child.pid
                return self._fitted(spec, need, answer)
            case Waiting(reason):
                self._reserved = child.pid
                self._wait(reason)
                return None
            case Refused(reason, False) if spec.rung in self._proved:
                # Somebody has taken what the last one left. Its generations would be lost by a
                # refusal; so long as it waits they have the time that they are held anyway.
                self._wait(f"waits for memory: it {reason}")
                return None
            case Refused(reason):
                self.refusal = Fault(FaultKind.OUT_OF_MEMORY, f"the model {reason}")
                return None

    def _wait(self, reason: str) -> None:
        if self.waits_for != reason:
            self.waits_for = reason
            _log.info("load_waits", model=self._model, reason=reason)
            self._on_change()

    def _fitted(self, spec: EngineSpec, need: LoadNeed, granted: Granted) -> EngineSpec:
        """The spec with a cache that fits. Only a size that the operator gave has to be changed: any
        other follows from what the engine finds free."""
        if spec.cache_size_bytes is None or granted.cache_bytes >= need.cache_bytes:
            return spec
        wanted, given = in_gb(need.cache_bytes), in_gb(granted.cache_bytes)
        self.notice = f"the KV cache has {given} in place of {wanted}: more memory is not free"
        _log.warning("cache_reduced", model=self._model, wanted=wanted, given=given)
        return msgspec.structs.replace(spec, cache_size_bytes=granted.cache_bytes)
