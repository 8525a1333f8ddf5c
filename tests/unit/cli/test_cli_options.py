"""The command line as a function: which options exist, and what they come to."""

import inspect
import re

import pytest

from refloat.cli import application
from refloat.cli.exit_codes import ExitCode
from refloat.cli.options import panel_of
from refloat.config.fields import FIELDS


def _run(*arguments: str) -> int:
    return application.run(arguments)


def _help(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERMINAL_WIDTH", "200")
    assert _run("serve", "--help") == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)


def test_serve_help_shows_every_setting_with_its_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = _help(capsys, monkeypatch)
    for field in FIELDS.values():
        if field.key != "model":
            assert field.flag in text
    assert "Port; 0 picks a free one (default: 8000)." in text
    assert "--no-enable-prefix-caching" in text
    assert "(one of auto, json, text; default: auto)" in text
    assert "[MODEL]" in text


def test_every_setting_stands_in_a_panel() -> None:
    assert [key for key in FIELDS if key != "model" and panel_of(key) == "More"] == []


def test_serve_options_given_are_handed_over_and_others_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[object] = []

    def note(model: str | None, config: object, options: dict[str, str | bool]) -> int:
        seen.extend([model, config, options])
        return 0

    monkeypatch.setattr("refloat.cli.serve.serve_models", note)
    assert _run("serve", "m", "--port", "1", "--no-metrics", "--plugin-config", '{"A": 1}') == 0
    assert seen == ["m", None, {"port": "1", "metrics": False, "plugin_config": '{"A": 1}'}]


def test_serve_options_in_seconds_may_leave_out_their_unit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[dict[str, str | bool]] = []

    def note(model: str | None, config: object, options: dict[str, str | bool]) -> int:
        seen.append(options)
        return 0

    monkeypatch.setattr("refloat.cli.serve.serve_models", note)
    assert _run("serve", "m", "--stall-floor", "3") == 0
    assert _run("serve", "m", "--stall-floor-s", "3") == 0
    assert seen == [{"stall_floor_s": "3"}] * 2


@pytest.mark.parametrize(
    "arguments", [["serve", "--prot", "1"], ["nope"], ["models", "rm"], ["serve", "a", "b"]]
)
def test_wrong_usage_is_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(*arguments) == ExitCode.USAGE
    assert capsys.readouterr().err


def test_unknown_option_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    _run("serve", "--prot", "1")
    assert "--port" in capsys.readouterr().err


def test_version_is_printed_by_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    from refloat.cli.main import main

    assert main(["--version"]) == 0
    assert _run("--version") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert first.startswith("refloat ")


def test_serve_signature_takes_no_setting_twice() -> None:
    names = list(inspect.signature(application.serve).parameters)
    assert sorted(names) == sorted({*FIELDS, "config"})
