"""What a model's probe has to say: recorded the first time, compared ever after.

A record belongs to everything that decides the answer: model, properties, device, versions, engine.
It proves that a worker computes what its predecessors computed, not that this is right.
"""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from refloat.observe.log import get_logger
from refloat.wire.messages import EngineSpec

_log = get_logger(__name__)

PROBE_TOKENS = 4
_PROMPT_TOKENS = 16
#: Says where compiled kernels lie, not what they compute.
_NEUTRAL_PROPERTIES = frozenset({"CACHE_DIR"})


class ProbeRecord(msgspec.Struct, frozen=True):
    """One record, as JSON on disk."""

    ids: tuple[int, ...]


def probe_prompt(vocab_size: int) -> list[int]:
    """The ids that every probe of a model begins with: 1 to 16, inside its vocabulary."""
    return [number % vocab_size for number in range(1, _PROMPT_TOKENS + 1)]


def probe_key(spec: EngineSpec, model_hash: str, versions: Mapping[str, str]) -> str:
    """Names everything that decides what a probe says, as hexadecimal sha256."""
    properties = {
        name: value for name, value in spec.properties.items() if name not in _NEUTRAL_PROPERTIES
    }
    whole = [model_hash, spec.engine, spec.device, properties, spec.options, dict(versions)]
    encoded = msgspec.json.encode(whole, order="sorted", enc_hook=str)
    return hashlib.sha256(encoded).hexdigest()


class ProbeStore:
    """Records in one folder, shared by all servers of a user. Disk trouble is logged and costs the
    comparison with earlier servers, never a start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, ProbeRecord] = {}

    def judge(self, key: str, ids: tuple[int, ...]) -> str | None:
        """What is wrong with a probe's answer, as a sentence; `None`: nothing, and the first answer
        ever to `key` is recorded."""
        if not ids:
            return "the probe brought no tokens"
        record = self._recall(key)
        if record is None:
            self._record(key, ProbeRecord(ids))
        elif record.ids != ids:
            return f"the probe brought {list(ids)} where {list(record.ids)} is on record"
        return None

    def forget(self, key: str) -> None:
        """Drop the record of `key`: an operator accepts what the next probe says."""
        self._known.pop(key, None)
        try:
            self._path(key).unlink(missing_ok=True)
        except OSError as error:
            _log.warning("probe_record_not_removed", key=key, error=str(error))

    def _recall(self, key: str) -> ProbeRecord | None:
        if key not in self._known:
            try:
                self._known[key] = _decode(self._path(key).read_bytes())
            except FileNotFoundError:
                return None
            except (OSError, msgspec.DecodeError) as error:
                _log.warning("probe_record_unreadable", key=key, error=str(error))
                return None
        return self._known[key]

    def _record(self, key: str, record: ProbeRecord) -> None:
        """Written whole or not at all."""
        self._known[key] = record
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            fd, name = tempfile.mkstemp(dir=self._folder, prefix=".probe-")
            with os.fdopen(fd, "wb") as file:
                file.write(msgspec.json.encode(record))
            Path(name).replace(self._path(key))
        except OSError as error:
            _log.warning("probe_record_not_written", key=key, error=str(error))

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"


_decode = msgspec.json.Decoder(ProbeRecord).decode
