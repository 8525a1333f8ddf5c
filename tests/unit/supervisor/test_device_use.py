"""A process's use of its GPU, from fdinfo as the kernel documents it."""

from pathlib import Path

from refloat.supervisor.device_use import has_advanced, parse_fdinfo, read_device_use

_I915 = """pos:\t0
flags:\t02100002
drm-driver:\ti915
drm-pdev:\t0000:03:00.0
drm-client-id:\t7
drm-engine-render:\t9288864723 ns
drm-engine-copy:\t0 ns
drm-engine-capacity-video:\t2
drm-total-local0:\t512 KiB
"""
_XE = """drm-driver:\txe
drm-pdev:\t0000:04:00.0
drm-client-id:\t3
drm-cycles-ccs:\t1500
drm-total-cycles-ccs:\t7655183225
"""


def test_fdinfo_of_both_intel_drivers_is_read_and_clocks_and_capacities_are_not_work() -> None:
    assert parse_fdinfo(_I915) == {
        ("0000:03:00.0/7", "drm-engine-render"): 9288864723,
        ("0000:03:00.0/7", "drm-engine-copy"): 0,
    }
    assert parse_fdinfo(_XE) == {("0000:04:00.0/3", "drm-cycles-ccs"): 1500}


def test_fdinfo_that_is_torn_or_strange_has_no_counters() -> None:
    assert parse_fdinfo("drm-engine-render:\ndrm-cycles-rcs:\tmany\nnonsense\n:::\n") == {}


def test_advance_is_seen_in_any_counter_and_not_in_a_client_that_has_gone() -> None:
    before = {("a", "render"): 5, ("b", "render"): 50}
    assert not has_advanced(before, before)
    assert not has_advanced(before, {("a", "render"): 5})
    assert has_advanced(before, {("a", "render"): 6})
    assert has_advanced(before, {**before, ("c", "render"): 1})


def test_device_use_of_a_process_is_the_union_of_its_drm_files(tmp_path: Path) -> None:
    (tmp_path / "42" / "fd").mkdir(parents=True)
    (tmp_path / "42" / "fdinfo").mkdir()
    files = {
        3: ("/dev/dri/renderD128", _I915),
        4: ("/dev/dri/renderD128", _I915),
        5: ("/dev/dri/renderD129", _XE),
        6: ("/dev/null", _XE.replace("client-id:\t3", "client-id:\t9")),
    }
    for number, (target, text) in files.items():
        (tmp_path / "42" / "fd" / str(number)).symlink_to(target)
        (tmp_path / "42" / "fdinfo" / str(number)).write_text(text)
    (tmp_path / "42" / "fd" / "8").symlink_to("/dev/dri/card0")
    assert set(read_device_use(42, tmp_path)) == {
        ("0000:03:00.0/7", "drm-engine-render"),
        ("0000:03:00.0/7", "drm-engine-copy"),
        ("0000:04:00.0/3", "drm-cycles-ccs"),
    }
    assert read_device_use(43, tmp_path) == {}
