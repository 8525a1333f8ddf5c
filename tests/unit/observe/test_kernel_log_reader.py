"""Following a kernel log: from its end on, without a log, with one that cannot be read."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from refloat.observe.kernel_lines import KernelEvent, KernelEventKind, Subject
from refloat.observe.kernel_log import KernelLog, in_first_pid_namespace

HANG = "i915 0000:03:00.0: [drm] GPU HANG: ecode 12, in refloat-worker [{pid}]\n"


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(20):
            await scenario()

    asyncio.run(whole())


def say(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_kernel_log_tells_whom_a_new_line_names_and_nobody_of_old_ones(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    say(path, HANG.format(pid=7))

    async def scenario() -> None:
        log = KernelLog(path, knows_pids=True)
        log.start()
        heard: asyncio.Queue[KernelEvent] = asyncio.Queue()
        log.follow(Subject(7), heard.put_nowait)
        log.follow(Subject(8), lambda event: heard.put_nowait(event))
        say(path, "something else\n" + HANG.format(pid=7) + HANG.format(pid=9))
        event = await heard.get()
        assert event.pid == 7
        log.drain()
        assert heard.empty()
        assert [e.pid for e in log.since(0.0)] == [7, 9]
        assert log.trouble is None
        log.close()
        log.close()

    run(scenario)


def test_kernel_log_line_written_in_two_parts_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.touch()

    async def scenario() -> None:
        log = KernelLog(path, knows_pids=True)
        log.start()
        text = HANG.format(pid=7)
        say(path, text[:20])
        log.drain()
        assert log.since(0.0) == []
        say(path, text[20:])
        log.drain()
        assert [e.kind for e in log.about(Subject(7), 0.0)] == [KernelEventKind.GPU_RESET]
        log.close()

    run(scenario)


def test_kernel_log_within_a_container_convicts_by_name_only_if_one_process_fits(
    tmp_path: Path,
) -> None:
    path = tmp_path / "kmsg"
    path.touch()

    async def scenario() -> None:
        log = KernelLog(path, knows_pids=False)
        log.start()
        heard: list[str] = []
        first = log.follow(Subject(100), lambda event: heard.append("first"))
        second = log.follow(Subject(101), lambda event: heard.append("second"))
        say(path, HANG.format(pid=7))
        log.drain()
        assert heard == []
        log.unfollow(second)
        say(path, HANG.format(pid=7))
        log.drain()
        assert heard == ["first"]
        log.unfollow(first)
        say(path, HANG.format(pid=7))
        log.drain()
        assert heard == ["first"]
        log.close()

    run(scenario)


def test_kernel_log_that_is_not_there_is_a_fact_and_no_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = KernelLog(tmp_path / "nothing")
        log.start()
        assert log.trouble is not None
        assert "No such file" in log.trouble
        log.drain()
        assert log.since(0.0) == []
        log.close()

    run(scenario)


def test_kernel_log_that_is_a_folder_is_a_fact_and_leaves_nothing_open(tmp_path: Path) -> None:
    async def scenario() -> None:
        before = len(os.listdir("/proc/self/fd"))
        log = KernelLog(tmp_path)
        log.start()
        log.drain()
        assert log.trouble is not None
        assert len(os.listdir("/proc/self/fd")) == before
        log.close()

    run(scenario)


def test_first_pid_namespace_is_known_by_its_number(tmp_path: Path) -> None:
    namespace = tmp_path / "self" / "ns" / "pid"
    assert not in_first_pid_namespace(tmp_path)
    namespace.parent.mkdir(parents=True)
    namespace.symlink_to("pid:[4026532198]")
    assert not in_first_pid_namespace(tmp_path)
    namespace.unlink()
    namespace.symlink_to("pid:[4026531836]")
    assert in_first_pid_namespace(tmp_path)
