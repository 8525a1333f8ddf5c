"""Ranges and sizes of fields, as data, and the one function that applies them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from refloat.api.errors import invalid
from refloat.wire.messages import MAX_TOKEN_ID

MAX_CHOICES = 128
MAX_PROMPTS = 128
#: Prompts times choices, since each is a generation of its own.
MAX_GENERATIONS = 512
MAX_STOP_STRINGS = 16
MAX_STOP_CHARS = 1024
MAX_STOP_TOKEN_IDS = 128
MAX_COUNT = 2**31 - 1
MAX_METADATA = 16
MAX_METADATA_KEY_CHARS = 64
MAX_METADATA_VALUE_CHARS = 512
MAX_LABEL_CHARS = 4096
#: A deadline beyond a day is none.
MAX_TIMEOUT_S = 86_400


class Range(NamedTuple):
    """The numbers that a field may have."""

    field: str
    low: float
    high: float
    above: bool = False
    """`low` itself is excluded."""

    def admits(self, value: float) -> bool:
        """Whether the value is in it; NaN is in none."""
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    @property
    def words(self) -> str:
        """For messages and for documents."""
        low = f"above {self.low:g}" if self.above else f"at least {_plain(self.low)}"
        return f"{low} and at most {_plain(self.high)}"


SHARED_RANGES: tuple[Range, ...] = (
    Range("max_tokens", 1, MAX_COUNT),
    Range("min_tokens", 0, MAX_COUNT),
    Range("temperature", 0, 2),
    Range("top_p", 0, 1),
    Range("top_k", -1, MAX_COUNT),
    Range("min_p", 0, 1),
    Range("n", 1, MAX_CHOICES),
    Range("seed", -(2**63), 2**63 - 1),
    Range("presence_penalty", -2, 2),
    Range("frequency_penalty", -2, 2),
    Range("repetition_penalty", 0, 10, above=True),
    Range("request_timeout_s", 0, MAX_TIMEOUT_S, above=True),
)


def check_ranges(body: msgspec.Struct, ranges: Sequence[Range]) -> None:
    """Refuse a number out of its range. Raises `ProblemError`."""
    for entry in ranges:
        value = getattr(body, entry.field)
        if value is not None and not entry.admits(value):
            message = f"{entry.field} has to be {entry.words}, not {_short(value)}."
            raise invalid(message, entry.field)


def check_labels(body: msgspec.Struct, fields: Sequence[str]) -> None:
    """Refuse a label that is longer than any label needs to be. Raises `ProblemError`."""
    for field in fields:
        value = getattr(body, field)
        if value is not None and len(value) > MAX_LABEL_CHARS:
            raise invalid(f"{field} may have {MAX_LABEL_CHARS} characters at most.", field)


def check_metadata(metadata: dict[str, str] | None) -> None:
    """OpenAI's limits on metadata. Raises `ProblemError`."""
    if metadata is None:
        return
    if len(metadata) > MAX_METADATA:
        raise invalid(f"metadata may have {MAX_METADATA} entries at most.", "metadata")
    for key, value in metadata.items():
        if len(key) > MAX_METADATA_KEY_CHARS or len(value) > MAX_METADATA_VALUE_CHARS:
            message = (
                f"metadata keys may have {MAX_METADATA_KEY_CHARS} characters, "
                f"values {MAX_METADATA_VALUE_CHARS}."
            )
            raise invalid(message, "metadata")


def stop_strings(stop: str | list[str] | None, field: str = "stop") -> tuple[str, ...]:
    """The stop strings, whichever way they were given. Raises `ProblemError`."""
    if stop is None:
        return ()
    strings = (stop,) if isinstance(stop, str) else tuple(stop)
    if len(strings) > MAX_STOP_STRINGS:
        raise invalid(f"{field} may have {MAX_STOP_STRINGS} strings at most.", field)
    for index, string in enumerate(strings):
        param = field if isinstance(stop, str) else f"{field}[{index}]"
        if not string:
            raise invalid("A stop string must not be empty.", param)
        if len(string) > MAX_STOP_CHARS:
            raise invalid(f"A stop string may have {MAX_STOP_CHARS} characters at most.", param)
    return strings


def token_ids(ids: Sequence[Any], param: str) -> tuple[int, ...]:
    """Ids that can be token ids at all; the vocabulary is checked later. Raises `ProblemError`."""
    if set(map(type, ids)) == {int} and min(ids) >= 0 and max(ids) <= MAX_TOKEN_ID:
        return tuple(ids)  # there may be millions, and everybody waits meanwhile
    for index, token in enumerate(ids):
        if type(token) is not int or not 0 <= token <= MAX_TOKEN_ID:
            where = f"{param}[{index}]"
            raise invalid(f"{where} is not a token id: {_short(token)}.", where)
    return tuple(ids)


def stop_token_ids(ids: list[int] | None) -> tuple[int, ...]:
    """The ids that end an answer. Raises `ProblemError`."""
    if ids is None:
        return ()
    if len(ids) > MAX_STOP_TOKEN_IDS:
        message = f"stop_token_ids may have {MAX_STOP_TOKEN_IDS} entries at most."
        raise invalid(message, "stop_token_ids")
    return token_ids(ids, "stop_token_ids")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _plain(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:g}"
