"""Keys with rights of their own, as an operator writes them."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from refloat.config.check import check
from refloat.config.key_rights import KeyRightsError, read_key_rights, tenant_weights
from refloat.config.load import load
from refloat.config.schema import Config, ModelConfig, ServerConfig

HASH = hashlib.sha256(b"secret").hexdigest()


def test_key_is_the_files_or_its_hash(tmp_path: Path) -> None:
    file = tmp_path / "batch.key"
    file.write_text(" secret \n")
    [by_file] = read_key_rights([{"name": "a", "key_file": str(file), "priority": -3}])
    [by_hash] = read_key_rights([{"name": "b", "sha256": HASH.upper(), "admin": True}])
    assert by_file.digest == by_hash.digest == bytes.fromhex(HASH)
    assert (by_file.priority, by_file.admin) == (-3, False)
    assert (by_hash.priority, by_hash.admin) == (0, True)


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ([{"sha256": HASH}], "keys[0]: Object missing required field `name`"),
        ([{"name": "a b", "sha256": HASH}], "keys[0]: name has to be"),
        ([{"name": "a"}], "keys[0]: give key_file or sha256"),
        ([{"name": "a", "sha256": HASH, "key_file": "x"}], "keys[0]: give key_file or sha256"),
        ([{"name": "a", "sha256": "12"}], "keys[0]: sha256 has to be 64"),
        ([{"name": "a", "key_file": "/nope"}], "keys[0]: /nope cannot be read"),
        ([{"name": "a", "sha256": HASH, "priority": 101}], "keys[0]: "),
        ([{"name": "a", "sha256": HASH, "max_requests": 0}], "keys[0]: "),
        ([{"name": "a", "sha256": HASH, "rights": 1}], "unknown field `rights`"),
        ([{"name": n, "sha256": HASH} for n in "ab"], "keys[1]: its key is that of an earlier"),
        (
            [{"name": "a", "sha256": HASH}, {"name": "a", "sha256": "0" * 64}],
            "keys[1]: its name is that of an earlier",
        ),
    ],
)
def test_entry_that_cannot_be_meant_is_named(entries: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(KeyRightsError) as caught:
        read_key_rights(entries)
    assert says in str(caught.value)
    assert "secret" not in str(caught.value)
    server = ServerConfig(host="0.0.0.0", keys=entries)
    [error] = check(Config([ModelConfig("scripted")], server)).errors
    assert says in error


def test_file_with_two_keys_is_no_keys_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one\ntwo\n")
    with pytest.raises(KeyRightsError, match="holds 2 keys, not one"):
        read_key_rights([{"name": "a", "key_file": str(file)}])


def test_keys_alone_allow_to_listen_beyond_loopback() -> None:
    server = ServerConfig(host="0.0.0.0", keys=[{"name": "a", "sha256": HASH}])
    assert check(Config([ModelConfig("scripted")], server)).errors == ()


def test_key_files_are_relative_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "refloat.yaml").write_text(
        "server:\n  keys:\n    - {name: a, key_file: sub/a.key}\nmodels: [{model: scripted}]\n"
    )
    loaded = load(file=tmp_path / "refloat.yaml", environ={}, options={})
    assert loaded.config.server.keys == [{"name": "a", "key_file": str(tmp_path / "sub/a.key")}]


def test_tenants_have_the_weights_of_their_keys() -> None:
    entries = [{"name": "a", "sha256": HASH, "weight": 4}, {"name": "b", "sha256": HASH}]
    assert tenant_weights(entries) == {"key-a": 4.0}
    with pytest.raises(KeyRightsError, match=r"keys\[0\]: "):
        tenant_weights([{"name": "a", "sha256": HASH, "weight": 0}])
