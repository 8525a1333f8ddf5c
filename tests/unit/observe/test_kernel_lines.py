"""Lines as drivers and the OOM killer really write them, and whom they concern."""

import pytest

from refloat.observe.kernel_lines import (
    KernelEventKind,
    Subject,
    concerns,
    parse_kernel_line,
)

K = KernelEventKind

SAMPLES = [
    (
        "i915 0000:03:00.0: [drm] GPU HANG: ecode 12:10:8ed9fff2, in refloat-worker [4242]",
        (K.GPU_RESET, "i915", "0000:03:00.0", 4242, "refloat-worker"),
    ),
    (
        "i915 0000:03:00.0: [drm] refloat-worker[4242] context reset due to GPU hang",
        (K.GPU_RESET, "i915", "0000:03:00.0", 4242, "refloat-worker"),
    ),
    (
        "i915 0000:00:02.0: [drm] Resetting rcs0 for preemption time out",
        (K.GPU_RESET, "i915", "0000:00:02.0", None, None),
    ),
    (
        "Fence expiration time out i915-0000:4d:00.0:refloat-worker[4242]:5a2!",
        (K.JOB_TIMEOUT, "i915", "0000:4d:00.0", 4242, "refloat-worker"),
    ),
    (
        "xe 0000:03:00.0: [drm] GT0: Engine reset: engine_class=ccs, logical_mask: 0x1, guc_id=2",
        (K.GPU_RESET, "xe", "0000:03:00.0", None, None),
    ),
    (
        "xe 0000:03:00.0: [drm] GT0: Timedout job: seqno=4294967169, lrc_seqno=4294967169, "
        "guc_id=4, flags=0x0 in refloat-worker [4242]",
        (K.JOB_TIMEOUT, "xe", "0000:03:00.0", 4242, "refloat-worker"),
    ),
    (
        "xe 0000:03:00.0: [drm] Xe device coredump has been created",
        (K.COREDUMP, "xe", "0000:03:00.0", None, None),
    ),
    (
        "xe 0000:03:00.0: [drm] GT0: Fault response: Unsuccessful -22",
        (K.PAGE_FAULT, "xe", "0000:03:00.0", None, None),
    ),
    (
        "amdgpu 0000:0a:00.0: amdgpu: [gfxhub0] page fault (src_id:0 ring:24 vmid:3 pasid:32777)",
        (K.PAGE_FAULT, "amdgpu", "0000:0a:00.0", None, None),
    ),
    (
        "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* Process information: process refloat-worker "
        "pid 4242 thread refloat-wo:cs0 pid 4250",
        (K.JOB_TIMEOUT, "amdgpu", None, 4242, "refloat-worker"),
    ),
    (
        "amdgpu 0000:0a:00.0: amdgpu: GPU reset begin!",
        (K.GPU_RESET, "amdgpu", "0000:0a:00.0", None, None),
    ),
    (
        "NVRM: Xid (PCI:0000:65:00): 43, pid=4242, name=refloat-worker, Ch 00000008",
        (K.XID, "nvidia", "0000:65:00.0", 4242, "refloat-worker"),
    ),
    (
        "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.",
        (K.XID, "nvidia", "0000:01:00.0", None, None),
    ),
    (
        "Out of memory: Killed process 4242 (refloat-worker) total-vm:9174744kB, "
        "anon-rss:7982156kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:15800kB "
        "oom_score_adj:800",
        (K.OOM_KILL, None, None, 4242, "refloat-worker"),
    ),
    (
        "Memory cgroup out of memory: Killed process 4242 (refloat-worker) total-vm:917474kB",
        (K.OOM_KILL, None, None, 4242, "refloat-worker"),
    ),
    (
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,"
        "oom_memcg=/a,task_memcg=/a,task=refloat-worker,pid=4242,uid=0",
        (K.OOM_KILL, None, None, 4242, "refloat-worker"),
    ),
    (
        "refloat-worker[4242]: segfault at 7fc5e5dfa6f0 ip 00007fc5 sp 00007ffd error 4 in "
        "libopenvino_intel_gpu_plugin.so[407547,7fc5ef80b000+d93000] likely on CPU 1",
        (K.SEGFAULT, None, None, 4242, "refloat-worker"),
    ),
]


@pytest.mark.parametrize(("line", "meaning"), SAMPLES, ids=[line[:45] for line, _ in SAMPLES])
@pytest.mark.parametrize("prefix", ["", "Nov 29 16:21:01 host kernel: [  262.000268] "])
def test_kernel_line_as_drivers_write_it_is_understood(
    prefix: str, line: str, meaning: tuple[object, ...]
) -> None:
    event = parse_kernel_line(prefix + line)
    assert event is not None
    assert (event.kind, event.driver, event.address, event.pid, event.process) == meaning


@pytest.mark.parametrize(
    "line",
    [
        "usb 1-1: new high-speed USB device number 2 using xhci_hcd",
        "systemd[1]: Started Session 3 of user root.",
        "EXT4-fs (sda1): mounted filesystem with ordered data mode",
        "",
    ],
)
def test_kernel_line_of_no_interest_is_nothing(line: str) -> None:
    assert parse_kernel_line(line) is None


def test_kernel_line_of_a_driver_without_a_known_meaning_is_kept_as_other() -> None:
    event = parse_kernel_line("i915 0000:03:00.0: [drm] GuC firmware i915/dg2_guc_70.bin version")
    assert event is not None
    assert event.kind is K.OTHER
    assert not event.is_fatal


def test_xid_is_fatal_by_its_number() -> None:
    fatal = parse_kernel_line("NVRM: Xid (PCI:0000:65:00): 43, pid=1, name=a")
    harmless = parse_kernel_line("NVRM: Xid (PCI:0000:65:00): 63, pid=1, name=a")
    assert fatal is not None
    assert harmless is not None
    assert fatal.is_fatal
    assert not harmless.is_fatal


def test_kernel_line_is_shortened_and_has_no_control_characters() -> None:
    event = parse_kernel_line("i915 GPU HANG \x1b[31m" + "x" * 10_000)
    assert event is not None
    assert event.line.isprintable()
    assert len(event.line) <= 400


def test_event_concerns_a_process_by_pid_where_pids_are_known() -> None:
    event = parse_kernel_line("i915 0000:03:00.0: [drm] GPU HANG: x, in refloat-worker [7]")
    assert event is not None
    assert concerns(event, Subject(7), knows_pids=True)
    assert not concerns(event, Subject(8), knows_pids=True)


def test_event_concerns_a_process_by_name_and_device_within_a_container() -> None:
    event = parse_kernel_line("i915 0000:03:00.0: [drm] GPU HANG: x, in refloat-worker [7]")
    other = parse_kernel_line("i915 0000:03:00.0: [drm] GPU HANG: x, in python3 [8]")
    assert event is not None
    assert other is not None
    assert concerns(event, Subject(8, "0000:03:00.0"), knows_pids=False)
    assert concerns(event, Subject(8, None), knows_pids=False)
    assert not concerns(event, Subject(7, "0000:04:00.0"), knows_pids=False)
    assert not concerns(other, Subject(8, "0000:03:00.0"), knows_pids=False)


@pytest.mark.parametrize("name", ["pid=1234", "x pid=1234", "process x pid 1", "a [1234]"])
def test_process_whose_name_looks_like_a_pid_is_not_taken_for_that_one(name: str) -> None:
    event = parse_kernel_line(
        f"i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85df, in {name} [5678]"
    )
    assert event is not None
    assert (event.pid, event.process) == (5678, name)
    assert not concerns(event, Subject(1234), knows_pids=True)
