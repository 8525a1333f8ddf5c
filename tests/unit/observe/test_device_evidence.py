"""Devices in a stand-in for sysfs, their coredumps, and threads in a stand-in for /proc."""

import os
from pathlib import Path

import pytest

from refloat.observe.coredump import CoredumpFinder, copy_coredump
from refloat.observe.device import DeviceFacts, find_device
from refloat.observe.process_evidence import read_process


def card(root: Path, number: int, address: str, vendor: str = "0x8086") -> Path:
    """A card as sysfs shows it; its device's folder."""
    device = root / "devices" / "pci0000:00" / address
    (device / "drm").mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    driver = root / "bus" / "pci" / "drivers" / "xe"
    driver.mkdir(parents=True, exist_ok=True)
    (device / "driver").symlink_to(driver)
    entry = root / "class" / "drm" / f"card{number}"
    entry.mkdir(parents=True)
    (entry / "device").symlink_to(device)
    (root / "class" / "drm" / f"card{number}-DP-1").mkdir()
    return device


def dump(device: Path, data: bytes, mtime_s: int = 1) -> Path:
    path = device / "devcoredump" / "data"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (mtime_s, mtime_s))
    return path


def test_device_that_is_the_only_card_is_certain(tmp_path: Path) -> None:
    card(tmp_path, 0, "0000:03:00.0")
    card(tmp_path, 1, "0000:65:00.0", vendor="0x10de")
    expected = DeviceFacts("GPU", "0000:03:00.0", "xe")
    assert find_device("GPU", tmp_path) == expected
    assert find_device("GPU.1", tmp_path) == DeviceFacts("GPU.1")
    assert find_device("CPU", tmp_path) == DeviceFacts("CPU")


def test_device_among_several_cards_is_a_guess_with_the_integrated_first(tmp_path: Path) -> None:
    card(tmp_path, 0, "0000:03:00.0")
    card(tmp_path, 1, "0000:00:02.0")
    assert find_device("GPU.0", tmp_path) == DeviceFacts("GPU.0", "0000:00:02.0", "xe", True)
    assert find_device("GPU.1", tmp_path) == DeviceFacts("GPU.1", "0000:03:00.0", "xe", True)


def test_device_without_sysfs_has_its_name_only(tmp_path: Path) -> None:
    assert find_device("GPU.0", tmp_path / "nothing") == DeviceFacts("GPU.0")


def test_coredump_that_is_new_is_taken_once(tmp_path: Path) -> None:
    device = card(tmp_path, 0, "0000:03:00.0")
    dump(device, b"old")
    finder = CoredumpFinder(tmp_path)
    assert finder.take_new(None) is None
    dump(device, b"new", mtime_s=2)
    found = finder.take_new("0000:03:00.0")
    assert found is not None
    assert found.address == "0000:03:00.0"
    assert finder.take_new(None) is None


def test_coredump_of_another_device_is_left_for_whom_it_concerns(tmp_path: Path) -> None:
    mine, other = card(tmp_path, 0, "0000:03:00.0"), card(tmp_path, 1, "0000:04:00.0")
    finder = CoredumpFinder(tmp_path)
    dump(other, b"other")
    assert finder.take_new("0000:03:00.0") is None
    dump(mine, b"mine")
    assert finder.take_new("0000:03:00.0") is not None
    assert finder.take_new("0000:04:00.0") is not None


def test_coredump_is_copied_whole_or_cut_at_the_limit(tmp_path: Path) -> None:
    device = card(tmp_path, 0, "0000:03:00.0")
    finder = CoredumpFinder(tmp_path)
    dump(device, b"x" * 1000)
    found = finder.take_new(None)
    assert found is not None
    target = tmp_path / "copy"
    assert copy_coredump(found, target) == (1000, None)
    assert target.read_bytes() == b"x" * 1000
    assert copy_coredump(found, target, max_bytes=1000) == (1000, None)
    size, trouble = copy_coredump(found, target, max_bytes=999)
    assert (size, trouble) == (999, "cut at 999 bytes")
    assert target.stat().st_size == 999


def test_coredump_that_vanishes_first_is_a_fact_and_no_error(tmp_path: Path) -> None:
    device = card(tmp_path, 0, "0000:03:00.0")
    finder = CoredumpFinder(tmp_path)
    dump(device, b"x")
    found = finder.take_new(None)
    assert found is not None
    found.path.unlink()
    size, trouble = copy_coredump(found, tmp_path / "copy")
    assert size == 0
    assert trouble is not None
    assert "No such file" in trouble
    assert finder.take_new(None) is None


def test_process_evidence_has_every_thread_of_a_living_process() -> None:
    found = read_process(os.getpid(), most_s=5.0)
    assert f"--- thread {os.getpid()}" in found.text
    assert "State: R" in found.text
    assert "comm: " in found.text


def test_process_evidence_says_what_could_not_be_read_and_why(tmp_path: Path) -> None:
    thread = tmp_path / "7" / "task" / "7"
    thread.mkdir(parents=True)
    (thread / "comm").write_text("refloat-worker\n")
    (thread / "status").write_text("Name:\tx\nState:\tD (disk sleep)\nSigQ:\t0/1\n")
    (thread / "wchan").write_text("dma_fence_default_wait")
    (thread / "stack").mkdir()  # reading it fails, as without a privilege
    found = read_process(7, proc=tmp_path)
    assert "wchan: dma_fence_default_wait" in found.text
    assert "State: D (disk sleep)" in found.text
    assert dict(found.missing).keys() == {"status", "stack"}  # the process's own status is absent


def test_process_evidence_of_a_process_that_is_gone_is_no_error(tmp_path: Path) -> None:
    found = read_process(7, proc=tmp_path)
    assert dict(found.missing) == {
        "status": "No such file or directory",
        "task": "No such file or directory",
    }


@pytest.mark.parametrize("threads", [40])
def test_process_evidence_stops_when_its_time_is_over(tmp_path: Path, threads: int) -> None:
    for number in range(1, threads + 1):
        folder = tmp_path / "1" / "task" / str(number)
        folder.mkdir(parents=True)
        (folder / "comm").write_text(f"t{number}")
    ticks = iter(range(1000))
    found = read_process(1, proc=tmp_path, most_s=10.0, clock=lambda: float(next(ticks)))
    assert "--- thread 1\n" in found.text
    assert f"--- thread {threads}\n" not in found.text
    assert f"of {threads} threads not read" in dict(found.missing)["task"]
