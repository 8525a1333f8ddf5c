"""The files under packaging/ agree with the code they configure."""

import re
from pathlib import Path

import pytest

from refloat.config.check import check
from refloat.config.fields import FIELDS, MODEL_FIELDS, SERVER_FIELDS
from refloat.config.load import load
from refloat.config.schema import ModelConfig, ServerConfig

ROOT = Path(__file__).parents[3]
PACKAGING = ROOT / "packaging"
EXAMPLE = PACKAGING / "refloat.example.yaml"


def test_example_loads_checks_and_states_the_defaults() -> None:
    loaded = load(file=EXAMPLE, environ={}, options={})
    assert check(loaded.config).errors == ()
    assert loaded.config.server == ServerConfig()
    assert loaded.config.models == [ModelConfig("smollm2")]


@pytest.mark.parametrize("key", list(FIELDS))
def test_example_mentions_every_setting(key: str) -> None:
    assert re.search(rf"^[ #-]*\b{key}:", EXAMPLE.read_text(), re.MULTILINE)


def test_example_names_no_setting_that_is_none() -> None:
    keys = re.findall(r"^ *#? {0,3}-? ?([a-z][a-z_]+):", EXAMPLE.read_text(), re.MULTILINE)
    assert set(keys) <= {*SERVER_FIELDS, *MODEL_FIELDS, "server", "models"}


def test_service_outlives_the_drain_and_retries_only_what_may_pass() -> None:
    unit = (PACKAGING / "refloat.service").read_text()
    stop_s = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert stop_s is not None
    assert int(stop_s[1]) > ServerConfig().drain_timeout_s + 10
    for line in ("KillMode=mixed", "Restart=on-failure", "RestartPreventExitStatus=2"):
        assert f"\n{line}\n" in unit


def test_container_is_checked_for_readiness_and_runs_without_rights() -> None:
    text = (PACKAGING / "Dockerfile").read_text()
    assert "/v2/health/ready" in text
    assert re.search(r"^USER refloat$", text, re.MULTILINE)
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name


def test_proxy_does_not_buffer() -> None:
    assert "proxy_buffering off;" in (PACKAGING / "nginx.conf").read_text()


def test_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
