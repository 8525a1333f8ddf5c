"""Memory that is left, read from made-up proc and cgroup trees."""

from pathlib import Path

from refloat.observe.host_memory import HostMemory, read_host_memory, resident_bytes


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


_MEMINFO = {"proc/meminfo": "MemTotal:  9000 kB\nMemFree: 1 kB\nMemAvailable:    1000 kB\n"}


def test_host_memory_without_a_group_is_the_kernels(tmp_path: Path) -> None:
    assert read_host_memory(write(tmp_path, _MEMINFO)) == HostMemory(1000 * 1024, 9000 * 1024)


def test_host_memory_is_bounded_by_the_tightest_group_on_the_way_out(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/"
    files = {
        "proc/self/cgroup": "0::/a.slice/b.service\n",
        group + "a.slice/b.service/memory.max": "max\n",
        group + "a.slice/b.service/memory.current": "5\n",
        group + "a.slice/memory.max": "2000\n",
        group + "a.slice/memory.current": "1900\n",
        group + "a.slice/memory.stat": "anon 100\ninactive_file 400\n",
    }
    assert read_host_memory(write(tmp_path, _MEMINFO | files)) == HostMemory(500, 2000)


def test_host_memory_of_a_container_is_read_at_the_root_of_what_it_sees(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/somewhere/on/the/host\n",
        "sys/fs/cgroup/memory.max": "3000\n",
        "sys/fs/cgroup/memory.current": "1000\n",
    }
    assert read_host_memory(write(tmp_path, _MEMINFO | files)) == HostMemory(2000, 3000)


def test_host_memory_knows_groups_of_the_first_version_and_their_way_to_say_none(
    tmp_path: Path,
) -> None:
    group = "sys/fs/cgroup/memory/"
    files = {
        "proc/self/cgroup": "4:memory:/box\n1:cpu:/\n0::/\n",
        group + "box/memory.limit_in_bytes": "5000\n",
        group + "box/memory.usage_in_bytes": "4000\n",
        group + "box/memory.stat": "total_inactive_file 1500\n",
        group + "memory.limit_in_bytes": "9223372036854771712\n",
        group + "memory.usage_in_bytes": "1\n",
    }
    assert read_host_memory(write(tmp_path, _MEMINFO | files)) == HostMemory(2500, 5000)


def test_host_memory_of_which_nothing_is_known_is_small_but_some(tmp_path: Path) -> None:
    memory = read_host_memory(tmp_path)
    assert 0 < memory.available == memory.limit
    write(tmp_path, {"proc/meminfo": "nonsense\n\nMemAvailable:\n", "proc/self/cgroup": "x\n:\n"})
    assert read_host_memory(tmp_path) == memory


def test_resident_memory_counts_neither_files_nor_the_dead(tmp_path: Path) -> None:
    status = "Name:\tx\nVmRSS:\t 900 kB\nRssAnon:\t 300 kB\nRssFile:\t 500 kB\nRssShmem:\t 100 kB\n"
    write(tmp_path, {"proc/7/status": status})
    assert resident_bytes(7, tmp_path) == 400 * 1024
    assert resident_bytes(8, tmp_path) == 0
