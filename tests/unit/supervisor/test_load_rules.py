"""Who may load, who waits and who is refused, by figures alone."""

import pytest

from refloat.models.manifest import Manifest
from refloat.observe.host_memory import HostMemory
from refloat.supervisor.load_need import LoadNeed, expected_need
from refloat.supervisor.load_rules import (
    Figures,
    Granted,
    Refused,
    Reservation,
    Waiting,
    decide,
)
from refloat.wire.messages import EngineSpec

GB = 1 << 30


def need(
    host: float = 0, device: float = 0, cache: float = 0, least: float | None = None
) -> LoadNeed:
    least = cache if least is None else least
    return LoadNeed(
        int(host * GB),
        int(device * GB),
        int(cache * GB),
        int(least * GB),
        is_cache_on_device=device > 0,
    )


def entry(host: float, *, granted: bool = True, device: float = 0) -> Reservation:
    return Reservation(
        pid=1,
        started=1,
        model="other",
        host_bytes=int(host * GB),
        device="GPU.0",
        device_bytes=int(device * GB),
        is_granted=granted,
        seen_s=0.0,
    )


def figures(free: float, limit: float = 32, device: float | None = None) -> Figures:
    host = HostMemory(int(free * GB) + (128 << 20), int(limit * GB))
    free_on_device = None if device is None else int(device * GB)
    return Figures(host, free_on_device, None if device is None else 16 * GB)


def test_load_that_fits_is_let_in_with_what_it_takes() -> None:
    answer = decide(need(4, cache=2), "CPU", [], figures(8), [])
    assert answer == Granted(6 * GB, 0, 2 * GB)


def test_load_that_does_not_fit_is_refused_with_figures() -> None:
    answer = decide(need(9), "CPU", [], figures(8), [])
    assert answer == Refused("needs 9.0 GB of host memory, 8.0 GB are free")


def test_load_larger_than_the_machine_is_refused_even_while_others_load() -> None:
    answer = decide(need(40), "CPU", [entry(1)], figures(8), [0])
    reason = "needs 40.0 GB of host memory, 32.0 GB is all there is"
    assert answer == Refused(reason, is_hopeless=True)


def test_load_waits_for_one_beside_which_it_does_not_fit_and_says_so() -> None:
    answer = decide(need(5), "CPU", [entry(5)], figures(8), [0])
    assert isinstance(answer, Waiting)
    assert answer.reason == (
        "waits for memory: it needs 5.0 GB of host memory, 3.0 GB are free beside the load of "
        "'other'"
    )


def test_load_what_another_has_taken_already_is_not_held_back_twice() -> None:
    """Six of eight were reserved; four of them are taken and so no longer among what is free."""
    assert isinstance(decide(need(3), "CPU", [entry(6)], figures(4), [4 * GB]), Waiting)
    assert isinstance(decide(need(2), "CPU", [entry(6)], figures(4), [4 * GB]), Granted)
    assert isinstance(decide(need(2), "CPU", [entry(6)], figures(4), [9 * GB]), Granted)


def test_load_does_not_pass_one_that_waits_already() -> None:
    answer = decide(need(1), "CPU", [entry(9, granted=False)], figures(8), [0])
    assert answer == Waiting("waits for another load: that of 'other' comes first")


def test_cache_larger_than_what_is_free_is_reduced_but_not_below_what_is_of_use() -> None:
    wanted = need(2, cache=10, least=3)
    assert decide(wanted, "CPU", [], figures(8), []) == Granted(8 * GB, 0, 6 * GB)
    assert decide(wanted, "CPU", [], figures(4), []) == Refused(
        "needs 5.0 GB of host memory, 4.0 GB are free"
    )


def test_cache_is_reduced_only_once_nobody_else_loads() -> None:
    answer = decide(need(2, cache=10, least=3), "CPU", [entry(1)], figures(8), [0])
    assert isinstance(answer, Waiting)


def test_device_memory_counts_where_it_is_known() -> None:
    wanted = need(1, device=6, cache=4, least=1)
    assert decide(wanted, "GPU.0", [], figures(8, device=8), []) == Granted(GB, 8 * GB, 2 * GB)
    assert decide(wanted, "GPU.0", [], figures(8, device=5), []) == Refused(
        "needs 7.0 GB of device memory, 5.0 GB are free"
    )
    beside = [entry(0, device=6)]
    assert isinstance(decide(wanted, "GPU.0", beside, figures(8, device=12), [0]), Waiting)
    assert isinstance(decide(wanted, "GPU.1", beside, figures(8, device=12), [0]), Granted)


def test_device_memory_that_is_not_known_holds_nobody_back() -> None:
    answer = decide(need(1, device=60, cache=40), "GPU.0", [], figures(8), [])
    assert answer == Granted(GB, 100 * GB, 40 * GB)


def manifest(weights_gb: float, kv: int | None = None) -> Manifest:
    return Manifest(1, "x", "h", 1000, kv_bytes_per_token=kv, weights_bytes=int(weights_gb * GB))


def spec(device: str = "CPU", **changes: object) -> EngineSpec:
    fields: dict[str, object] = {"context_length": 1000, "max_num_seqs": 4}
    return EngineSpec("openvino_cb", "", device, **(fields | changes))  # pyright: ignore[reportArgumentType]


def test_need_of_a_load_on_the_host_grows_with_its_weights_and_cache() -> None:
    found = expected_need(spec(num_kv_blocks=100), manifest(2, kv=1000), 64 * GB)
    assert found.host_bytes > 3 * GB
    assert found.device_bytes == 0
    assert found.cache_bytes == found.least_cache_bytes == 100 * 32 * 600
    assert not found.is_cache_on_device


@pytest.mark.parametrize(
    ("weightless", "staged"), [(True, False), ("YES", False), (False, True), ("NO", True)]
)
def test_need_of_a_load_on_a_gpu_stages_weights_only_where_it_must(
    weightless: object, staged: bool
) -> None:
    gpu = spec("GPU.1", properties={"ENABLE_WEIGHTLESS": weightless}, cache_size_bytes=2 * GB)
    found = expected_need(gpu, manifest(8), 64 * GB)
    assert (found.host_bytes > 8 * GB) is staged
    assert found.device_bytes == 8 * GB
    assert found.cache_bytes == 2 * GB
    assert found.is_cache_on_device


def test_need_of_a_cache_is_no_more_than_all_seats_can_fill() -> None:
    found = expected_need(spec(cache_size_bytes=64 * GB), manifest(1, kv=1_000_000), 64 * GB)
    assert found.cache_bytes == 4 * 1000 * 600_000
    assert found.least_cache_bytes == 1000 * 600_000


def test_need_of_a_cache_that_nobody_set_is_the_engines_own_choice() -> None:
    found = expected_need(spec(), manifest(1), 2 * GB)
    assert (found.cache_bytes, found.least_cache_bytes) == (GB // 2, 0)


def test_need_of_a_scripted_model_is_what_it_declares() -> None:
    found = expected_need(EngineSpec("scripted", ""), manifest(3), 64 * GB)
    assert 3 * GB < found.host_bytes < 4 * GB
    assert found.cache_bytes == 0
