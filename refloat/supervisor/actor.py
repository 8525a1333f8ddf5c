"""A slot on the event loop: one task, one inbox, timers and processes. No decision is made here.

The loop of `run` is the slot's only writer. If anything of ours breaks, in the slot or in a callback
of a child, `run` raises, and that has to end the gateway: a supervisor that is dead without anybody
knowing would be worse.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from typing import Any, Protocol

from refloat.supervisor.backoff import CrashBudget
from refloat.supervisor.child import Child, ChildCommand, next_worker_id
from refloat.supervisor.inbox import Alarm, Item, LinkEnded, Order, ProcessEnded, Received
from refloat.supervisor.knobs import Knobs
from refloat.supervisor.program import Program
from refloat.supervisor.slot import Slot
from refloat.supervisor.slot_witness import SlotWitness
from refloat.wire.link import LinkEnd

_LAST_REAP_S = 5.0


class HostedProgram(Program, Protocol):
    """A program whose hot messages never pass the inbox."""

    def deliver(self, child: Child, message: Any) -> bool:
        """Take a message straight from the link; `False`: it is for the slot."""
        ...


class SlotActor:
    """Runs one slot. `start_child` is replaced in tests only."""

    def __init__(
        self,
        program: HostedProgram,
        command: ChildCommand,
        knobs: Knobs,
        *,
        model: str,
        witness: SlotWitness | None = None,
        budget: CrashBudget | None = None,
        start_child: Callable[..., Child] = Child,
    ) -> None:
        self._program = program
        self._command = command
        self._start_child = start_child
        self._inbox: asyncio.Queue[Item | BaseException] = asyncio.Queue()
        self._timers: dict[Alarm, asyncio.TimerHandle] = {}
        self._finished = asyncio.Event()
        self.slot = Slot(program, self, knobs, model=model, witness=witness, budget=budget)

    async def run(self) -> None:
        """Supervise until `stop`. Raises what broke; the child is killed then."""
        try:
            self.slot.start()
            while not self.slot.is_finished:
                item = await self._inbox.get()
                if isinstance(item, BaseException):
                    raise item
                self.slot.handle(item)
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()
            await self._abandon()
            self._finished.set()

    async def stop(self, deadline_s: float) -> None:
        """Ask the child to leave; after `deadline_s` it is killed. Returns once `run` is over."""
        self.slot.leave_s = deadline_s
        self.post(Order.STOP)
        await self._finished.wait()  # bounded: by the alarms LEAVE and REAP of the slot

    # --- the slot's desk ---------------------------------------------------------------------------

    def now_s(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def chance(self) -> float:
        """For jitter."""
        return random.random()

    def spawn(self) -> Child:
        """Start the program under a new worker id. Raises `OSError`."""
        return self._start_child(
            next_worker_id(),
            self._command,
            on_message=self._on_message,
            on_end=self._on_end,
            on_exit=self._on_exit,
        )

    def set_alarm(self, alarm: Alarm, delay_s: float) -> None:
        """Post `alarm` after `delay_s`."""
        self.drop_alarm(alarm)
        loop = asyncio.get_running_loop()
        self._timers[alarm] = loop.call_later(delay_s, self.post, alarm)

    def drop_alarm(self, alarm: Alarm) -> None:
        """Forget `alarm`."""
        timer = self._timers.pop(alarm, None)
        if timer is not None:
            timer.cancel()

    def post(self, item: Item) -> None:
        """Put an item into the inbox."""
        self._inbox.put_nowait(item)

    # --- what a child says -------------------------------------------------------------------------

    def _on_message(self, child: Child, message: Any) -> None:
        try:
            if self._program.deliver(child, message):
                return
        except Exception as error:  # noqa: BLE001 - a bug of ours: `run` raises it
            self._inbox.put_nowait(error)
            return
        self.post(Received(child.worker_id, message))

    def _on_end(self, child: Child, end: LinkEnd, detail: str) -> None:
        self.post(LinkEnded(child.worker_id, end, detail))

    def _on_exit(self, child: Child) -> None:
        self.post(ProcessEnded(child.worker_id))

    async def _abandon(self) -> None:
        """Leave no process behind, however `run` ends."""
        child = self.slot.child
        if child is None:
            return
        child.process.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_REAP_S):
                while child.process.reap() is None:
                    await self._inbox.get()  # its end is posted there
        child.close()
