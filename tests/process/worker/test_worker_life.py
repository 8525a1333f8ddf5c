"""A worker's start, its ends and its exit codes."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from refloat.scripted.tokens import ScriptedTokenizer
from refloat.wire.exit_codes import ChildExit
from refloat.wire.faults import FaultKind
from refloat.wire.messages import Hello, LoadFailed, Probe, Probed, Shutdown
from refloat.wire.pipe import EOF
from refloat.wire.progress import PAGE_BYTES, Phase
from tests.process.worker.conftest import Driver, StartWorker

pytestmark = pytest.mark.process


def test_worker_start_says_hello_with_versions_and_raises_its_oom_score(worker: Driver) -> None:
    hello = worker.expect(Hello)
    assert hello.program == "worker"
    assert hello.pid == worker.process.pid
    assert hello.versions["openvino"]
    assert Path(f"/proc/{hello.pid}/oom_score_adj").read_text().strip() == "800"
    assert Path(f"/proc/{hello.pid}/comm").read_text().strip() == "refloat-worker"[:15]
    maps = Path(f"/proc/{hello.pid}/maps").read_text()
    assert "openvino" not in maps


def test_worker_loaded_scripted_never_maps_openvino(worker: Driver) -> None:
    worker.load()
    assert "openvino" not in Path(f"/proc/{worker.process.pid}/maps").read_text()


def test_worker_without_a_gateway_leaves_as_orphaned(start_worker: StartWorker) -> None:
    assert start_worker(orphan=True).wait() == ChildExit.ORPHANED


def test_worker_link_closed_before_configure_leaves_as_asked(worker: Driver) -> None:
    worker.expect(Hello)
    worker.pipe.close()
    assert worker.wait() == ChildExit.ASKED


def test_worker_link_closed_while_idle_leaves_as_asked(worker: Driver) -> None:
    worker.load()
    worker.pipe.close()
    assert worker.wait() == ChildExit.ASKED


def test_worker_link_closed_while_stepping_leaves_as_asked(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    worker.load(options={"step_s": 0.005})
    worker.add(1, tokens.encode("Count from 1 to 1000"), max_tokens=4000)
    worker.receive()
    worker.pipe.close()
    assert worker.wait() == ChildExit.ASKED


def test_worker_shutdown_leaves_as_asked(worker: Driver) -> None:
    worker.load()
    worker.send(Shutdown())
    assert worker.wait() == ChildExit.ASKED


def test_worker_ignores_an_interrupt(worker: Driver) -> None:
    worker.load()
    os.kill(worker.process.pid, signal.SIGINT)
    worker.probe()
    assert worker.expect(Probed).ids


def test_worker_prints_stacks_on_sigusr1_and_goes_on(worker: Driver) -> None:
    worker.load()
    os.kill(worker.process.pid, signal.SIGUSR1)
    worker.probe()
    worker.expect(Probed)
    worker.send(Shutdown())
    worker.wait()
    assert b"most recent call first" in worker.stderr()


def test_worker_of_another_protocol_version_leaves(worker: Driver) -> None:
    worker.configure(version=999)
    assert worker.wait() == ChildExit.PROTOCOL


def test_worker_given_garbage_leaves(worker: Driver) -> None:
    worker.load()
    worker.pipe.send_bytes(b"\xff" * 16)
    assert worker.wait() == ChildExit.PROTOCOL


def test_worker_given_an_undecodable_frame_leaves(worker: Driver) -> None:
    worker.load()
    worker.pipe.send_bytes(b"\x00\x00\x00\x02hi")
    assert worker.wait() == ChildExit.PROTOCOL


def test_worker_given_a_command_before_configure_leaves(worker: Driver) -> None:
    worker.expect(Hello)
    worker.send(Probe(b"", 1))
    assert worker.wait() == ChildExit.PROTOCOL


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"engine": "nonsense"}, "known: openvino_cb, scripted"),
        ({"options": {"step_z": 1}}, "step_z"),
        ({"options": {"script": "/nonexistent.yaml"}}, "/nonexistent.yaml"),
        ({"faults": ({"at": "step", "kind": "explode"},)}, "faults[0]"),
    ],
)
def test_worker_configuration_that_never_works_is_reported_as_that(
    worker: Driver, fields: dict[str, Any], text: str
) -> None:
    worker.configure(**fields)
    failed = worker.expect(LoadFailed)
    assert failed.kind is FaultKind.BAD_CONFIGURATION
    assert text in failed.message
    assert worker.wait() == ChildExit.LOAD_FAILED


def test_worker_probe_reports_ids_and_cache(worker: Driver) -> None:
    worker.load(num_kv_blocks=77)
    worker.probe(count=5)
    probed = worker.expect(Probed)
    assert len(probed.ids) == 5
    assert probed.cache is not None
    assert (probed.cache.num_blocks, probed.cache.block_size) == (77, 16)


def test_worker_probe_twice_says_the_same(start_worker: StartWorker) -> None:
    answers: list[tuple[int, ...]] = []
    for _ in range(2):
        worker = start_worker()
        worker.load()
        worker.probe(count=8)
        answers.append(worker.expect(Probed).ids)
    assert answers[0] == answers[1]


def test_worker_loading_is_on_the_progress_page(worker: Driver) -> None:
    worker.configure(options={"load_s": 60})
    for _ in range(3000):
        page = worker.progress.read()
        if page is not None and page.phase is Phase.LOADING:
            break
        worker.pipe.recv(0.01)
    else:
        pytest.fail("never seen loading")


def test_worker_whose_spawner_is_killed_dies_with_it(tmp_path: Path) -> None:
    """The parent-death signal reaches a worker that cannot read its link."""
    import subprocess
    import sys

    script = tmp_path / "spawner.py"
    script.write_text(
        "import os, socket, subprocess, sys\n"
        "a, b = socket.socketpair()\n"
        f"p = os.memfd_create('p'); os.ftruncate(p, {PAGE_BYTES})\n"
        "c = subprocess.Popen([sys.executable, '-m', 'refloat.worker', '--link-fd', str(b.fileno()),"
        " '--progress-fd', str(p)], pass_fds=(b.fileno(), p, a.fileno()))\n"
        "a.recv(1)\n"  # the first byte of its hello
        "print(c.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    spawner = subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert spawner.stdout is not None
    pid = int(spawner.stdout.readline())
    handle = os.pidfd_open(pid)
    try:
        # The worker holds the gateway's end as well, so it will see no EOF.
        spawner.kill()
        import select

        assert select.select([handle], [], [], 30)[0], "the worker outlived its parent"
    finally:
        os.close(handle)
        spawner.communicate()


def test_worker_end_of_link_is_what_the_gateway_sees_too(worker: Driver) -> None:
    worker.load()
    worker.process.kill()
    assert worker.receive() is EOF
