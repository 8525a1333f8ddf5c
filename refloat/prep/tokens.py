"""Text to ids, every token counted. The way back is `detokenize.py`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from refloat.prep.error import PrepError
from refloat.prep.graph import Graphs, Infer, drop_special_tokens, fed_with_bytes, lift_limits

#: Tokens of the text by which a limit would show itself; longer contexts than this are not served.
_MOST_CHECKED = 1_000_000
_LEAST_CHECKED = 20_000


class _Surroundings(NamedTuple):
    """The special tokens a tokenizer puts around a text."""

    prefix: list[int]
    suffix: list[int]


class OpenVinoTokenizer:
    """`openvino_tokenizer.xml` of a model folder, one text at a time, so without padding."""

    def __init__(self, graphs: Graphs, path: Path) -> None:
        """Raises `PrepError`, also if the graph would not count a long text in full."""
        model = graphs.read(path)
        limit = lift_limits(model)
        whole = graphs.compile(fed_with_bytes(model))
        self._around = _surroundings(_run(whole, ""), _run(whole, "a b"))
        plain = graphs.read(path)
        lift_limits(plain)
        if any(self._around) and drop_special_tokens(plain):
            self._infer = graphs.compile(fed_with_bytes(plain))
        else:
            self._infer = whole
        # Some graphs cannot be told to leave the special tokens out: they are taken off again.
        self._glued = self._around if _run(self._infer, "") else _Surroundings([], [])
        if self.encode("a b", add_special_tokens=True) != _run(whole, "a b"):
            raise PrepError("tokenizer not understood: its special tokens depend on the text")
        self._check_untruncated(limit)

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """All ids of a text. Lone surrogates, which are no characters, count as U+FFFD."""
        ids = _run(self._infer, text)
        prefix, suffix = self._glued
        ids = ids[len(prefix) : len(ids) - len(suffix)]
        if add_special_tokens:
            return [*self._around.prefix, *ids, *self._around.suffix]
        return ids

    def _check_untruncated(self, limit: int) -> None:
        unit = "hello world\n"
        few, more = self._count(unit * 8), self._count(unit * 16)
        per_unit, rest = divmod(more - few, 8)
        if rest or per_unit < 1:
            raise PrepError("tokenizer not understood: repeated text has no regular count")
        wanted = min(max(limit + limit // 4, _LEAST_CHECKED), _MOST_CHECKED)
        units = 8 + wanted // per_unit
        expected = few + per_unit * (units - 8)
        counted = self._count(unit * units)
        if counted != expected:
            raise PrepError(
                f"the tokenizer cuts long texts: {counted} tokens were counted where {expected} are"
            )

    def _count(self, text: str) -> int:
        return len(self.encode(text, add_special_tokens=False))


def _run(infer: Infer, text: str) -> list[int]:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    ids, *masks = infer(
        np.zeros(1, np.int32), np.array([len(data)], np.int32), np.frombuffer(data, np.uint8)
    )
    row: Any = ids.reshape(-1)
    if masks and masks[-1].size == row.size:
        row = row[masks[-1].reshape(-1) != 0]
    return row.tolist()


def _surroundings(of_nothing: Sequence[int], of_sample: Sequence[int]) -> _Surroundings:
    """Where the tokens of an empty text stand around a text that is not empty."""
    count = 0
    while count < len(of_nothing) and of_nothing[count] == of_sample[count]:
        count += 1
    return _Surroundings(list(of_nothing[:count]), list(of_nothing[count:]))
