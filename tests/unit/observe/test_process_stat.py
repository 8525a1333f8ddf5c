"""What the kernel says of a process: at work, stopped, ended, gone."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack

from refloat.observe.process_stat import GONE, read_process_stat
from refloat.testing.patience import eventually


def test_processor_time_of_this_process_is_what_it_says_itself() -> None:
    before = os.times()
    stat = read_process_stat(os.getpid())
    after = os.times()
    assert stat.cpu_s is not None
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    assert before.user + before.system - 2 * tick_s <= stat.cpu_s
    assert stat.cpu_s <= after.user + after.system + 2 * tick_s
    assert not stat.is_stopped
    assert not stat.is_exiting


def test_life_of_a_process_whose_name_looks_like_the_fields_behind_it() -> None:
    name = ") T 1 ("
    program = f"open('/proc/self/comm', 'w').write({name!r}); input()"
    with (
        subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process,
        ExitStack() as at_last,
    ):
        at_last.callback(process.kill)  # one that stays stopped would be waited for
        pid = process.pid
        with open(f"/proc/{pid}/comm", encoding="utf-8") as comm:
            eventually(lambda: comm.seek(0) or comm.read().strip() == name, what="its name")
        assert not read_process_stat(pid).is_stopped
        assert not read_process_stat(pid).has_ended
        started = read_process_stat(pid).started
        assert started >= read_process_stat(os.getpid()).started > 0
        process.send_signal(signal.SIGSTOP)
        eventually(lambda: read_process_stat(pid).is_stopped, what="the stop")
        process.send_signal(signal.SIGCONT)
        eventually(lambda: not read_process_stat(pid).is_stopped, what="its return")
        process.kill()
        eventually(lambda: read_process_stat(pid).is_exiting, what="its end")
        eventually(lambda: read_process_stat(pid).has_ended, what="nothing but its exit code")
        assert read_process_stat(pid).started == started
    assert read_process_stat(pid) == GONE
