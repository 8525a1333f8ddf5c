"""The gate as several servers see it: one folder, made-up processes and memory."""

import fcntl
import os
from pathlib import Path

import pytest

from refloat.observe.host_memory import HostMemory
from refloat.supervisor.device_memory import DeviceMemory, read_device_memory
from refloat.supervisor.load_gate import LoadGate
from refloat.supervisor.load_need import LoadNeed
from refloat.supervisor.load_rules import Granted, Refused, Waiting

GB = 1 << 30


class Host:
    """A machine of 16 GB of which 10 are free, and its processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.free_gb = 10
        self.now_s = 100.0

    def server(self) -> LoadGate:
        return LoadGate(
            self.folder / "loads",
            root=self.folder,
            host_memory=lambda: HostMemory(self.free_gb * GB, 16 * GB),
            clock=lambda: self.now_s,
            device_memory=lambda device: None,
        )

    def start(self, pid: int, *, started: int = 1, state: str = "S", taken_gb: int = 0) -> int:
        folder = self.folder / "proc" / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        fields = [state, *["0"] * 18, str(started), "0"]
        (folder / "stat").write_text(f"{pid} (a worker) {' '.join(fields)}\n")
        (folder / "status").write_text(f"RssAnon:\t{taken_gb * (1 << 20)} kB\n")
        return pid


def need(gb: float) -> LoadNeed:
    return LoadNeed(int(gb * GB), 0, 0, 0, is_cache_on_device=False)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_gate_lets_two_loads_in_one_after_another_where_they_do_not_fit_together(
    host: Host,
) -> None:
    one, two = host.server(), host.server()
    assert isinstance(one.ask("a", "CPU", need(6), host.start(1)), Granted)
    assert isinstance(two.ask("b", "CPU", need(6), host.start(2)), Waiting)
    host.start(1, taken_gb=3)
    host.free_gb = 7
    one.done(1)
    assert isinstance(two.ask("b", "CPU", need(6), 2), Granted)


def test_gate_what_a_load_has_taken_is_no_longer_reserved(host: Host) -> None:
    one, two = host.server(), host.server()
    one.ask("a", "CPU", need(6), host.start(1))
    host.start(1, taken_gb=6)
    host.free_gb = 4
    assert isinstance(two.ask("b", "CPU", need(3), host.start(2)), Granted)


@pytest.mark.parametrize("end", ["gone", "zombie", "another process"])
def test_gate_reservation_of_a_dead_process_is_nobodys(host: Host, end: str) -> None:
    one, two = host.server(), host.server()
    one.ask("a", "CPU", need(9), host.start(1))
    assert isinstance(two.ask("b", "CPU", need(6), host.start(2)), Waiting)
    if end == "gone":
        (host.folder / "proc/1/stat").unlink()
    elif end == "zombie":
        host.start(1, state="Z")
    else:
        host.start(1, started=99)
    assert isinstance(two.ask("b", "CPU", need(6), 2), Granted)


def test_gate_is_first_come_first_served_and_forgets_who_no_longer_asks(host: Host) -> None:
    one, two = host.server(), host.server()
    one.ask("a", "CPU", need(6), host.start(1))
    assert isinstance(two.ask("large", "CPU", need(8), host.start(2)), Waiting)
    assert isinstance(two.ask("small", "CPU", need(1), host.start(3)), Waiting)
    one.done(1)
    assert isinstance(two.ask("small", "CPU", need(1), 3), Waiting)
    host.now_s += 4.0
    two.ask("small", "CPU", need(1), 3)
    host.now_s += 4.0
    assert isinstance(two.ask("small", "CPU", need(1), 3), Granted)


def test_gate_refuses_with_figures_what_does_not_fit_alone_and_keeps_no_place_for_it(
    host: Host,
) -> None:
    server = host.server()
    answer = server.ask("a", "CPU", need(12), host.start(1))
    assert isinstance(answer, Refused)
    assert answer.reason.startswith("needs 12.0 GB of host memory, 9.9 GB are free")
    assert isinstance(server.ask("b", "CPU", need(9), host.start(2)), Granted)


def test_gate_held_by_a_stopped_server_is_waited_for_and_then_done_without(host: Host) -> None:
    server = host.server()
    assert isinstance(server.ask("a", "CPU", need(1), host.start(1)), Granted)
    lock = os.open(host.folder / "loads" / "lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert isinstance(server.ask("b", "CPU", need(1), host.start(2)), Waiting)
        host.now_s += 31.0
        assert isinstance(server.ask("b", "CPU", need(1), 2), Granted)
        server.done(2)
    finally:
        os.close(lock)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'[{"pid": "x"}]'])
def test_gate_file_that_is_broken_costs_no_load(host: Host, content: bytes) -> None:
    folder = host.folder / "loads"
    folder.mkdir()
    (folder / "reservations.json").write_bytes(content)
    server = host.server()
    assert isinstance(server.ask("a", "CPU", need(6), host.start(1)), Granted)
    assert isinstance(host.server().ask("b", "CPU", need(6), host.start(2)), Waiting)


def test_gate_without_a_folder_still_keeps_the_loads_of_one_server_apart(host: Host) -> None:
    (host.folder / "loads").write_text("a file where a folder should be")
    server = host.server()
    assert isinstance(server.ask("a", "CPU", need(6), host.start(1)), Granted)
    assert isinstance(server.ask("b", "CPU", need(6), host.start(2)), Waiting)
    server.done(1)
    assert isinstance(server.ask("b", "CPU", need(6), 2), Granted)


def test_gate_knows_its_own_process_from_proc_itself(tmp_path: Path) -> None:
    server = LoadGate(tmp_path, host_memory=lambda: HostMemory(GB, GB))
    assert isinstance(server.ask("a", "CPU", need(0.8), os.getpid()), Granted)
    other = LoadGate(tmp_path, host_memory=lambda: HostMemory(GB, GB))
    assert isinstance(other.ask("b", "CPU", need(0.7), os.getppid()), Waiting)


def test_device_memory_is_known_of_a_single_card_that_tells_it(tmp_path: Path) -> None:
    assert read_device_memory("GPU", tmp_path) is None
    (tmp_path / "card0" / "device").mkdir(parents=True)
    assert read_device_memory("GPU", tmp_path) is None
    (tmp_path / "card0" / "device" / "mem_info_vram_total").write_text("1000\n")
    (tmp_path / "card0" / "device" / "mem_info_vram_used").write_text("400\n")
    (tmp_path / "card0-DP-1").mkdir()
    assert read_device_memory("GPU.0", tmp_path) == DeviceMemory(600, 1000)
    assert read_device_memory("CPU", tmp_path) is None
    (tmp_path / "card1" / "device").mkdir(parents=True)
    (tmp_path / "card1" / "device" / "mem_info_vram_total").write_text("1000\n")
    (tmp_path / "card1" / "device" / "mem_info_vram_used").write_text("0\n")
    assert read_device_memory("GPU.1", tmp_path) is None
