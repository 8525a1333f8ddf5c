"""Templates of every sort of ill will: each ends in an error that says why, in bounded time."""

import contextlib
import signal
from collections.abc import Callable
from typing import Any

import pytest

from refloat.prep import template as template_module
from refloat.prep.environment import chat_environment
from refloat.prep.limits import TimeLimitError, memory_limit, within_time
from refloat.prep.sources import TemplateSource
from refloat.prep.template import ChatTemplate, RenderError, Rendering, TemplateLoadError

HI = Rendering([{"role": "user", "content": "Hi"}])


def compiled(text: str, *, limit_s: float = 5.0, **special: str) -> ChatTemplate:
    return ChatTemplate(TemplateSource("test", text), special, limit_s=limit_s)


def failure(text: str, *, limit_s: float = 5.0) -> RenderError:
    with pytest.raises(RenderError) as caught:
        compiled(text, limit_s=limit_s).render(HI)
    return caught.value


def test_template_that_never_ends_is_stopped_by_the_clock() -> None:
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(RenderError) as caught:
        compiled(loop).render(HI, limit_s=0.05)
    assert "longer than 0.05 s" in str(caught.value)
    assert not caught.value.refused


def test_template_with_a_huge_range_is_refused() -> None:
    assert "Range too big" in str(failure("{% for a in range(10 ** 9) %}{% endfor %}"))


def test_template_that_recurses_for_ever_is_refused() -> None:
    assert "nests too deeply" in str(failure("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ 9 ** (9 ** 9) }}", "power"),
        ("{{ 'x' * 10000000000 }}", "repetition"),
        ("{{ 10000000000 * [0] }}", "repetition"),
        ("{% set s = namespace(x=9) %}{% for _ in range(99) %}{% set s.x = s.x * s.x %}{% endfor %}",
         "product"),
    ],
)  # fmt: skip
def test_template_that_makes_much_out_of_little_is_refused(text: str, reason: str) -> None:
    assert reason in str(failure(text))


def test_template_that_doubles_a_text_for_ever_runs_out_of_its_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(template_module, "_MAX_EXTRA_BYTES", 64 * 1024 * 1024)
    doubling = (
        "{% set ns = namespace(x='xxxxxxxx') %}"
        "{% for _ in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}"
    )
    assert "too much memory" in str(failure(doubling))


def test_template_that_writes_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_module, "MAX_RENDERED_CHARS", 1000)
    assert "1000 characters" in str(failure("{% for _ in range(5000) %}x{% endfor %}"))


def test_template_refusing_speaks_in_its_own_words() -> None:
    error = failure("{{ raise_exception('Roles must alternate') }}")
    assert error.refused
    assert str(error) == "Roles must alternate"


@pytest.mark.parametrize(
    ("text", "construct"),
    [
        ("a\n{{ messages[0].nothing.more }}", "line 2: {{ messages[0].nothing.more }}"),
        ("{{ messages[0].content + none }}", "TypeError"),
        ("{{ messages[9].content.upper() }}", "line 1"),
        ("{{ nothing_here | tojson }}", "Undefined"),
        ("{{ (messages | first).content.format }}{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{{ 1 // 0 }}", "ZeroDivisionError"),
    ],
)
def test_template_failing_names_the_construct(text: str, construct: str) -> None:
    error = failure(text)
    assert construct in str(error)
    assert not error.refused


@pytest.mark.case(93)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a\nb\n{% for %}", "line 3"),
        ("{{ x | no_such_filter }}", "no_such_filter"),
        ("{{ x is no_such_test }}", "no_such_test"),
        ("{% unknown %}", "unknown"),
        ("{% if x %}", "line 1"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "deeply"),
        ("{% for a in b %}" * 30 + "{% endfor %}" * 30, "nested blocks"),
    ],
)
def test_template_broken_is_known_when_it_is_loaded(text: str, reason: str) -> None:
    with pytest.raises(TemplateLoadError, match=reason):
        compiled(text)


def test_template_broken_for_tools_only_is_known_when_it_is_loaded() -> None:
    with pytest.raises(TemplateLoadError):
        ChatTemplate(TemplateSource("test", "ok", "{% if %}"), {}, limit_s=1.0)


def test_messages_nested_beyond_reason_are_refused() -> None:
    deep: Any = "x"
    for _ in range(50_000):
        deep = [deep]
    rendering = Rendering([{"role": "user", "content": deep}])
    with pytest.raises(RenderError, match="nests too deeply"):
        compiled("{{ messages | tojson }}").render(rendering)


def test_template_after_a_failure_renders_as_before() -> None:
    template = compiled("{{ messages[0].content + (x or '') }}", limit_s=1.0)
    with pytest.raises(RenderError):
        template.render(HI, {"x": 7})
    assert template.render(HI) == "Hi"


def test_time_limit_not_reached_leaves_no_alarm_behind() -> None:
    assert within_time(5.0, lambda: 7) == 7
    with pytest.raises(TimeLimitError):
        within_time(0.01, lambda: _spin_until(lambda: False))
    _spin_until(_passes(200_000))


@pytest.mark.timeout(0)  # it has the same timer
@pytest.mark.parametrize("reaches_it", [True, False])
def test_time_limit_leaves_timer_and_handler_as_they_were(reaches_it: bool) -> None:
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        with contextlib.suppress(TimeLimitError):
            within_time(0.01 if reaches_it else 5.0, lambda: _spin_until(lambda: not reaches_it))
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert signal.getsignal(signal.SIGALRM) is signal.SIG_IGN
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_alarm_that_comes_once_the_work_is_done_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_timer = signal.setitimer

    def late(which: int, seconds: float, interval: float = 0.0) -> tuple[float, float]:
        if seconds == 0:
            signal.raise_signal(signal.SIGALRM)
        return set_timer(which, seconds, interval)

    monkeypatch.setattr(signal, "setitimer", late)
    assert within_time(5.0, lambda: 7) == 7


def test_memory_limit_ends_with_its_block() -> None:
    with pytest.raises(MemoryError), memory_limit(4 * 1024 * 1024):
        bytearray(64 * 1024 * 1024)
    assert len(bytearray(64 * 1024 * 1024)) == 64 * 1024 * 1024


def test_environment_is_not_shared_between_templates() -> None:
    assert chat_environment().globals is not chat_environment().globals


def _passes(count: int) -> Callable[[], bool]:
    left = iter(range(count))
    return lambda: next(left, None) is None


def _spin_until(done: Callable[[], bool]) -> None:
    while not done():
        pass
