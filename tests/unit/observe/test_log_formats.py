"""What a log line looks like to people and to machines."""

import json
from collections.abc import Generator

import pytest
import structlog

from refloat.observe.log import configure_logging, get_logger


@pytest.fixture(autouse=True)
def structlog_as_it_was() -> Generator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def test_json_line_carries_module_level_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    get_logger("a.module").info("happened", request_id="req-1", nothing=None)
    entry = json.loads(capsys.readouterr().err)
    assert entry["event"] == "happened"
    assert entry["level"] == "info"
    assert entry["logger"] == "a.module"
    assert entry["request_id"] == "req-1"
    assert entry["nothing"] is None
    assert entry["timestamp"].endswith("Z")


def test_text_line_leaves_out_what_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "text")
    get_logger("a.module").info("happened", request_id="req-1", nothing=None, empty="")
    line = capsys.readouterr().err
    assert "happened" in line
    assert "request_id=req-1" in line
    assert "a.module" not in line
    assert "nothing" not in line
    assert "empty" not in line


def test_level_hides_what_is_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("warning", "json")
    log = get_logger("a.module")
    log.info("hidden")
    log.warning("shown")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["shown"]


@pytest.mark.parametrize(("level", "log_format"), [("loud", "json"), ("info", "xml")])
def test_unknown_setting_is_named(level: str, log_format: str) -> None:
    with pytest.raises(ValueError, match=r"loud|xml"):
        configure_logging(level, log_format)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_traceback_shows_where_but_no_variable(
    capsys: pytest.CaptureFixture[str], log_format: str
) -> None:
    configure_logging("info", log_format)
    prompt = "".join(["tell me ", "a secret"])
    try:
        raise RuntimeError(len(prompt))
    except RuntimeError:
        get_logger("a.module").exception("failed")
    printed = capsys.readouterr().err
    assert "test_traceback_shows_where" in printed
    assert "RuntimeError" in printed
    assert "secret" not in printed
