"""The gate that every load on a host passes: servers that share `$REFLOAT_HOME` share its file.

A load that is let in reserves its memory until its worker is ready, or gone: what a dead process had
reserved is nobody's. Deciding is in `load_rules.py`. Nothing here blocks: a lock that somebody holds
is asked for again, and a file that cannot be used costs the sharing, never a load.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Generator
from pathlib import Path

import msgspec

from refloat.observe.host_memory import HostMemory, read_host_memory, resident_bytes
from refloat.observe.log import get_logger
from refloat.observe.process_stat import GONE, read_process_stat
from refloat.supervisor.device_memory import DeviceMemory, read_device_memory
from refloat.supervisor.load_need import LoadNeed
from refloat.supervisor.load_rules import Answer, Figures, Granted, Reservation, Waiting, decide

_log = get_logger(__name__)

#: A load that nobody asked for in this time does not hold its place in the line.
_FORGOTTEN_S = 5.0
#: Held for moments only: a lock held for longer belongs to a server that was stopped.
_LONGEST_LOCK_S = 30.0
_MOST_BYTES = 1 << 20


class LoadGate:
    """One for a server."""

    def __init__(
        self,
        folder: Path,
        *,
        root: Path = Path("/"),
        host_memory: Callable[[], HostMemory] = read_host_memory,
        clock: Callable[[], float] = time.monotonic,
        device_memory: Callable[[str], DeviceMemory | None] = read_device_memory,
    ) -> None:
        self._folder = folder
        self._root = root
        self._host_memory = host_memory
        self._clock = clock
        self._device_memory = device_memory
        self._mine: dict[int, Reservation] = {}
        """Of this server, by pid: what stands in for a file that cannot be used."""
        self._locked_out_since_s: float | None = None
        self._said_unshared = False

    def available_bytes(self) -> int:
        """Of the host, as it stands."""
        return self._host_memory().available

    def ask(self, model: str, device: str, need: LoadNeed, pid: int) -> Answer:
        """Whether the worker with this pid may load. To be asked again while the answer is
        `Waiting`; each asking keeps its place in the line."""
        with self._locked() as is_locked:
            if not is_locked and self._waits_for_lock():
                return Waiting("waits for another load: the gate is in use")
            known = self._read() if is_locked else list(self._mine.values())
            entries = [entry for entry in known if self._counts(entry)]
            places = [entry.pid for entry in entries]
            at = places.index(pid) if pid in places else len(entries)
            before = [
                entry
                for index, entry in enumerate(entries)
                if entry.pid != pid and (index < at or entry.is_granted)
            ]
            taken = [resident_bytes(entry.pid, self._root) for entry in before]
            answer = decide(need, device, before, self._figures(device), taken)
            mine = self._reservation(model, device, need, pid, answer)
            entries[at : at + 1] = [] if mine is None else [mine]
            self._keep(pid, mine)
            if is_locked:
                self._write(entries)
            return answer

    def done(self, pid: int) -> None:
        """The load is over, or given up: what it took shows in what is free. Unknown ones do
        nothing. Should the lock be held just now, the reservation ends with the process."""
        if self._mine.pop(pid, None) is None:
            return
        with self._locked() as is_locked:
            if is_locked:
                self._write([entry for entry in self._read() if entry.pid != pid])

    # --- within ------------------------------------------------------------------------------------

    def _figures(self, device: str) -> Figures:
        memory = self._device_memory(device)
        host = self._host_memory()
        if memory is None:
            return Figures(host, None)
        return Figures(host, memory.free, memory.limit)

    def _reservation(
        self, model: str, device: str, need: LoadNeed, pid: int, answer: Answer
    ) -> Reservation | None:
        started = self._started(pid)
        if started is None or not isinstance(answer, Granted | Waiting):
            return None
        granted = answer if isinstance(answer, Granted) else None
        return Reservation(
            pid=pid,
            started=started,
            model=model,
            host_bytes=need.host_bytes if granted is None else granted.host_bytes,
            device=device,
            device_bytes=need.device_bytes if granted is None else granted.device_bytes,
            is_granted=granted is not None,
            seen_s=self._clock(),
        )

    def _keep(self, pid: int, entry: Reservation | None) -> None:
        if entry is None:
            self._mine.pop(pid, None)
        else:
            self._mine[pid] = entry

    def _counts(self, entry: Reservation) -> bool:
        """Whether the process still lives and, if it waits, is still asked for."""
        if self._started(entry.pid) != entry.started:
            return False
        return entry.is_granted or abs(self._clock() - entry.seen_s) < _FORGOTTEN_S

    def _started(self, pid: int) -> int | None:
        """The start time of a process that has not ended (a zombie has)."""
        stat = read_process_stat(pid, self._root)
        return None if stat == GONE or stat.has_ended else stat.started

    @contextlib.contextmanager
    def _locked(self) -> Generator[bool]:
        """The gate's lock, if it is free."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._say_unshared(error)
            yield False
            return
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if not isinstance(error, BlockingIOError):
                    self._say_unshared(error)
                yield False
            else:
                self._locked_out_since_s = None
                yield True
        finally:
            os.close(fd)

    def _waits_for_lock(self) -> bool:
        if self._said_unshared:
            return False
        now_s = self._clock()
        if self._locked_out_since_s is None:
            self._locked_out_since_s = now_s
        return now_s - self._locked_out_since_s < _LONGEST_LOCK_S

    def _read(self) -> list[Reservation]:
        try:
            with (self._folder / "reservations.json").open("rb") as file:
                return _decode(file.read(_MOST_BYTES))
        except FileNotFoundError:
            return list(self._mine.values())
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning("load_reservations_unreadable", error=str(error))
            return list(self._mine.values())

    def _write(self, entries: list[Reservation]) -> None:
        """Written whole or not at all, since a server may be killed here."""
        new = self._folder / "reservations.new"
        try:
            new.write_bytes(msgspec.json.encode(entries))
            new.replace(self._folder / "reservations.json")
        except OSError as error:
            self._say_unshared(error)

    def _say_unshared(self, error: OSError) -> None:
        if not self._said_unshared:
            self._said_unshared = True
            _log.warning("load_gate_not_shared", error=error.strerror)


_decode = msgspec.json.Decoder(list[Reservation]).decode
