"""The token table, read out of the detokenizer's graph and checked against what that graph decodes.

The gateway decodes by this table alone, so a stream and its whole agree by construction; the check
tells whether the table's text is also the tokenizer's.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refloat.prep.error import PrepError
from refloat.prep.graph import Graphs, Infer, giving_bytes, nodes_of, part_of
from refloat.prep.samples import SAMPLES
from refloat.prep.table import TokenBytes
from refloat.prep.tokenizer import Tokenizer

_ROW = 64
_RANDOM_ROWS = 128


def read_token_bytes(graphs: Graphs, path: Path, tokenizer: Tokenizer) -> TokenBytes:
    """The table of a model's `openvino_detokenizer.xml`. Raises `PrepError` if the graph decodes to
    other text than the table, white space apart."""
    model = graphs.read(path)
    table = _read(graphs, model)
    decode = _Decoder(graphs.compile(giving_bytes(model)))
    pairs = [(table.joined(row), decode(row)) for row in _rows(table, tokenizer)]
    return _checked(table, pairs)


class _Decoder:
    """The graph's own decoding, as bytes."""

    def __init__(self, infer: Infer) -> None:
        self._infer = infer

    def __call__(self, ids: Sequence[int]) -> bytes:
        begins, ends, chars = self._infer(np.array([ids], np.int64))
        return chars.tobytes()[int(begins[0]) : int(ends[0])]


def _read(graphs: Graphs, model: Any) -> TokenBytes:
    decoders, fuses = nodes_of(model, "VocabDecoder"), nodes_of(model, "FuzeRagged")
    if len(decoders) != 1 or len(fuses) != 1:
        kinds = sorted({node.get_type_name() for node in model.get_ordered_ops()})
        raise PrepError(f"detokenizer not understood: it is made of {', '.join(kinds)}")
    names = _words(*(graphs.value(decoders[0].input_value(index)) for index in (1, 2, 3)))
    special = _special_ids(graphs, decoders[0])
    # What stands between the vocabulary and the joining of tokens works on each token by itself
    # (byte fallback, the SentencePiece space), so the graph can be asked for its result on all.
    begins, ends = fuses[0].input_value(2), fuses[0].input_value(3)
    chars = begins.get_node().output(begins.get_index() + 2)
    per_token = graphs.compile(part_of(model, [begins, ends, chars]))
    words = _words(*per_token(np.arange(len(names), dtype=np.int64).reshape(1, -1)))
    if len(words) != len(names):
        raise PrepError(f"detokenizer not understood: {len(words)} texts for {len(names)} tokens")
    for token in special:
        words[token] = names[token]
    return TokenBytes(words, special)


def _special_ids(graphs: Graphs, decoder: Any) -> frozenset[int]:
    if decoder.get_input_size() < 5:
        skipped = decoder.get_attributes().get("skip_tokens", [])
    else:
        source = decoder.input_value(4)
        # A slice may switch skipping off; the marks are marks all the same.
        if source.get_node().get_type_name() == "Slice":
            source = source.get_node().input_value(0)
        skipped = graphs.value(source).reshape(-1).tolist()
    return frozenset(int(token) for token in skipped)


def _words(begins: Any, ends: Any, chars: Any) -> list[bytes]:
    data = chars.tobytes()
    bounds = zip(begins.reshape(-1).tolist(), ends.reshape(-1).tolist(), strict=True)
    return [data[begin:end] for begin, end in bounds]


def _rows(table: TokenBytes, tokenizer: Tokenizer) -> list[list[int]]:
    """Ids whose bytes are sound UTF-8: every token that is, in order and shuffled, and real texts."""
    rows = [tokenizer.encode(text, add_special_tokens=False) for text in SAMPLES]
    sound = [
        token
        for token, word in enumerate(table.words)
        if token not in table.special_ids and _is_sound(word)
    ]
    rows += [sound[start : start + _ROW] for start in range(0, len(sound), _ROW)]
    chance = random.Random(0)
    if sound:
        rows += [chance.choices(sound, k=_ROW // 2) for _ in range(_RANDOM_ROWS)]
    return [row for row in rows if _is_sound(table.joined(row))]


def _is_sound(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _checked(table: TokenBytes, pairs: Sequence[tuple[bytes, bytes]]) -> TokenBytes:
    for ours, theirs in pairs:
        if _letters(ours) != _letters(theirs):
            position = next(
                (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), 0
            )
            raise PrepError(
                "detokenizer not understood: it gives "
                f"{_excerpt(theirs, position)} where its tokens say {_excerpt(ours, position)}"
            )
    # Cleaning spaces up may take a first one too, but only stripping takes every first one.
    spaced = [(ours, theirs) for ours, theirs in pairs if ours.startswith(b" ")]
    strips = any(ours[1:] == theirs for ours, theirs in spaced) and not any(
        ours == theirs for ours, theirs in spaced
    )
    table = table._replace(strip_leading_space=strips)
    cut = b" " if strips else b""
    return table._replace(exact=all(ours.removeprefix(cut) == theirs for ours, theirs in pairs))


def _letters(data: bytes) -> str:
    return "".join(data.decode(errors="replace").split())


def _excerpt(data: bytes, position: int) -> str:
    return repr(data[max(0, position - 8) : position + 16])
