"""Which devices are held, by their names in OpenVINO's words."""

import pytest

from refloat.supervisor.quarantine import Quarantine, devices_of


@pytest.mark.parametrize(
    ("device", "devices"),
    [
        ("CPU", set[str]()),
        ("GPU", {"GPU.0"}),
        ("gpu.1", {"GPU.1"}),
        ("NPU", {"NPU"}),
        ("AUTO", set[str]()),
        ("AUTO:GPU.1,CPU", {"GPU.1"}),
        ("HETERO:GPU,NPU", {"GPU.0", "NPU"}),
        ("MULTI:GPU.1(4),-GPU.0", {"GPU.1"}),
    ],
)
def test_devices_of_a_device_string(device: str, devices: set[str]) -> None:
    assert devices_of(device) == devices


def test_quarantine_names_the_device_and_the_reason_until_it_is_released() -> None:
    quarantine, told = Quarantine(), list[str]()
    quarantine.on_release(lambda: told.append("released"))
    assert quarantine.reason("GPU") is None
    quarantine.hold(7, "GPU", "the worker process 7 does not die")
    assert quarantine.reason("GPU.0") == (
        "device GPU.0 is quarantined: the worker process 7 does not die"
    )
    assert quarantine.reason("HETERO:GPU,CPU") is not None
    assert quarantine.reason("GPU.1") is None
    assert quarantine.reason("CPU") is None
    quarantine.release(8)
    assert told == []
    quarantine.release(7)
    assert told == ["released"]
    assert quarantine.reason("GPU") is None


def test_quarantine_of_two_workers_ends_with_the_second() -> None:
    quarantine = Quarantine()
    quarantine.hold(1, "GPU", "a")
    quarantine.hold(2, "GPU", "b")
    quarantine.release(1)
    assert quarantine.reason("GPU.0") == "device GPU.0 is quarantined: b"


def test_quarantine_never_holds_the_host_itself() -> None:
    quarantine = Quarantine()
    quarantine.hold(1, "CPU", "a")
    assert quarantine.reason("CPU") is None
