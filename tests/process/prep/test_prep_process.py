"""The prep program from start to exit, on the scripted tokenizer."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refloat.wire.exit_codes import ChildExit
from refloat.wire.messages import PROTOCOL_VERSION, Hello, pack_ids
from refloat.wire.prep_messages import (
    Detokenize,
    PrepConfigure,
    PrepFailed,
    PrepRefused,
    Render,
    Text,
    Tokenize,
    Tokens,
)
from refloat.wire.problem import ProblemKind

pytestmark = pytest.mark.process

MESSAGES = [{"role": "user", "content": "Grüße 👋"}]
Start = Callable[..., Any]


def test_prep_rendered_chat_comes_back_as_ids(start_prep: Start) -> None:
    prep = start_prep()
    ready = prep.open()
    [ids] = prep.ids(Render(1, MESSAGES))
    prep.pipe.send(Detokenize(2, pack_ids(ids), skip_special_tokens=False))
    expected = "<|im_start|>user\nGrüße 👋<|im_end|>\n<|im_start|>assistant\n"
    assert prep.expect(Text) == Text(2, expected)
    assert ready.chat_unavailable is None
    assert ready.table.exact


def test_prep_jobs_sent_together_are_answered_in_order(start_prep: Start) -> None:
    prep = start_prep()
    prep.open()
    for job in range(50):
        prep.pipe.send(Tokenize(job, [f"text {job}"]))
    assert [prep.expect(Tokens).job for _ in range(50)] == list(range(50))


def test_prep_link_closed_leaves_at_once_and_asked_for(start_prep: Start) -> None:
    prep = start_prep()
    prep.open()
    prep.pipe.close()
    assert prep.ended() == (ChildExit.ASKED, "")


def test_prep_link_closed_before_configuring_leaves_at_once(start_prep: Start) -> None:
    prep = start_prep()
    prep.expect(Hello)
    prep.pipe.close()
    assert prep.ended() == (ChildExit.ASKED, "")


def test_prep_started_by_nobody_leaves_as_an_orphan(start_prep: Start) -> None:
    code, _ = start_prep(orphan=True).ended()
    assert code == ChildExit.ORPHANED


def test_prep_interrupt_of_the_terminal_is_ignored(start_prep: Start) -> None:
    prep = start_prep()
    prep.open()
    os.kill(prep.process.pid, signal.SIGINT)
    assert prep.ids(Tokenize(1, ["a"])) == [[97]]


def test_prep_is_the_first_to_be_taken_when_memory_runs_out(start_prep: Start) -> None:
    prep = start_prep()
    prep.open()
    proc = Path(f"/proc/{prep.process.pid}")
    assert (proc / "oom_score_adj").read_text().strip() == "900"
    assert (proc / "comm").read_text().strip() == "refloat-prep"


@pytest.mark.parametrize(
    "first", [Tokenize(1, ["a"]), PrepConfigure(PROTOCOL_VERSION + 1, "", "scripted")]
)
def test_prep_first_message_not_legal_is_a_protocol_error(start_prep: Start, first: Any) -> None:
    prep = start_prep()
    prep.expect(Hello)
    prep.pipe.send(first)
    code, log = prep.ended()
    assert code == ChildExit.PROTOCOL
    assert "protocol" in log


def test_prep_configured_twice_is_a_protocol_error(start_prep: Start) -> None:
    prep = start_prep()
    prep.open()
    prep.pipe.send(PrepConfigure(PROTOCOL_VERSION, "", "scripted"))
    assert prep.ended()[0] == ChildExit.PROTOCOL


def test_prep_garbage_on_the_link_is_a_protocol_error(start_prep: Start) -> None:
    prep = start_prep()
    prep.open()
    prep.pipe.send_bytes(b"\xff" * 64)
    assert prep.ended()[0] == ChildExit.PROTOCOL


@pytest.mark.parametrize(
    ("tokenizer", "options", "reason"),
    [
        ("no such kind", {}, "no such kind"),
        ("scripted", {"script": "/nowhere/script.yaml"}, "script"),
    ],
)
def test_prep_that_cannot_open_its_model_says_why_and_leaves(
    start_prep: Start, tokenizer: str, options: dict[str, Any], reason: str
) -> None:
    prep = start_prep()
    prep.configure(tokenizer=tokenizer, options=options)
    assert reason in prep.expect(PrepFailed).message
    assert prep.ended()[0] == ChildExit.LOAD_FAILED


def test_prep_hostile_template_costs_its_request_and_nothing_else(
    start_prep: Start, tmp_path: Path
) -> None:
    hostile = (
        "{% if messages[0].content == 'spin' %}"
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
        "{% elif messages[0].content == 'eat' %}{% set ns = namespace(x='x' * 999999) %}"
        "{% for _ in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}"
        "{% elif messages[0].content == 'dive' %}{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"
        "{% elif messages[0].content == 'refuse' %}{{ raise_exception('No.') }}"
        "{% else %}ok{% endif %}"
    )
    path = tmp_path / "hostile.jinja"
    path.write_text(hostile, encoding="utf-8")
    prep = start_prep()
    prep.open(chat_template_file=str(path), render_limit_s=0.2)
    for job, content in enumerate(["spin", "eat", "dive", "refuse"]):
        prep.pipe.send(Render(job, [{"role": "user", "content": content}]))
        refused = prep.expect(PrepRefused)
        assert refused.job == job
        assert refused.problem.kind is ProblemKind.INVALID_REQUEST
        assert refused.problem.param == "messages"
        assert prep.ids(Render(9, MESSAGES)) == [[111, 107]]


@pytest.mark.case(91)
def test_prep_broken_template_leaves_all_but_chat_working(
    start_prep: Start, tmp_path: Path
) -> None:
    path = tmp_path / "broken.jinja"
    path.write_text("{% if %}", encoding="utf-8")
    prep = start_prep()
    ready = prep.open(chat_template_file=str(path))
    assert "line 1" in (ready.chat_unavailable or "")
    prep.pipe.send(Render(1, MESSAGES))
    refused = prep.expect(PrepRefused)
    assert refused.problem.kind is ProblemKind.CHAT_TEMPLATE_UNAVAILABLE
    assert prep.ids(Tokenize(2, ["a"])) == [[97]]


def test_prep_printing_of_libraries_does_not_reach_stdout_or_the_link(start_prep: Start) -> None:
    prep = start_prep()
    prep.open()
    links = [os.readlink(f"/proc/{prep.process.pid}/fd/{fd}") for fd in (1, 2)]
    assert links[0] == links[1]


def test_prep_whose_parent_dies_dies_too() -> None:
    """The parent is a process in between, which starts prep, tells its pid, and is killed."""
    ours, theirs = socket.socketpair()
    middle = (
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-m', 'refloat.prep', '--link-fd', sys.argv[1]],"
        " pass_fds=(int(sys.argv[1]),))\n"
        "print(p.pid, flush=True)\np.wait()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", middle, str(theirs.fileno())],
        pass_fds=(theirs.fileno(),),
        stdout=subprocess.PIPE,
    )
    theirs.close()
    with ours, parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline())
        ours.settimeout(30)
        assert ours.recv(1)  # it has said Hello, so it is tied to its parent
        parent.kill()
        while ours.recv(65536):
            pass  # the link ends when prep, its last holder, is gone
