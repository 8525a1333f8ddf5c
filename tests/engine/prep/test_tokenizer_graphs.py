"""Tokenizer graphs of kinds that no model here has: built on the spot, opened as any other."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from refloat.prep.detokenize import read_token_bytes
from refloat.prep.error import PrepError
from refloat.prep.graph import Graphs, nodes_of
from refloat.prep.tokens import OpenVinoTokenizer
from tests.late_import import late_import

pytestmark = pytest.mark.engine

TINY = Path(__file__).parents[2] / "data" / "tiny-llm"
BEGIN, END = 2029, 2031
Graph = Any
np: Any = late_import("numpy")
openvino: Any = late_import("openvino")
opset: Any = late_import("openvino.opset15")


@cache
def factory() -> Any:
    from openvino_tokenizers import _get_factory  # pyright: ignore[reportPrivateUsage]

    return _get_factory()


def constant(value: Any) -> Any:
    return opset.constant(np.asarray(value)).output(0)


def whole(value: Any) -> Any:
    return constant(np.array(value, np.int32))


@pytest.fixture
def tokenizer_graph() -> Graph:
    return Graphs().read(TINY / "openvino_tokenizer.xml")


def opened(graph: Graph, folder: Path) -> OpenVinoTokenizer:
    path = folder / "openvino_tokenizer.xml"
    openvino.save_model(graph, str(path))
    return OpenVinoTokenizer(Graphs(), path)


def redirect(node: Any, replacement: Any, outputs: Sequence[int]) -> None:
    for index in outputs:
        for target in list(node.output(index).get_target_inputs()):
            target.replace_source_output(replacement.output(index))


def with_special_tokens(graph: Graph, switch: Any | None = None) -> None:
    """Make it write a begin and an end token; `switch`: the output that decides how many."""
    [node] = nodes_of(graph, "CombineSegments")
    count = whole(1) if switch is None else switch
    replacement = factory().create(
        "CombineSegments",
        [
            *(whole(0), count, whole([BEGIN])),
            *(node.input_value(index) for index in range(3)),
            *(whole(0), count, whole([END])),
            whole([0, 0, 0]),
        ],
    )
    redirect(node, replacement, range(3))


def limited(graph: Graph, limit: int) -> None:
    """Make `Truncate` cut at a constant, always."""
    [node] = nodes_of(graph, "Truncate")
    node.input(3).replace_source_output(whole(limit))


def test_tokenizer_that_adds_tokens_can_leave_them_out(
    tokenizer_graph: Graph, tmp_path: Path
) -> None:
    with_special_tokens(tokenizer_graph)
    tokenizer = opened(tokenizer_graph, tmp_path)
    plain = tokenizer.encode("a b", add_special_tokens=False)
    assert plain
    assert BEGIN not in plain
    assert tokenizer.encode("a b", add_special_tokens=True) == [BEGIN, *plain, END]
    assert tokenizer.encode("", add_special_tokens=True) == [BEGIN, END]


def test_tokenizer_that_adds_tokens_for_ever_has_them_taken_off(
    tokenizer_graph: Graph, tmp_path: Path
) -> None:
    # A count that comes out of an operation is not one of the switches that are known.
    with_special_tokens(tokenizer_graph, opset.add(whole(1), whole(0)).output(0))
    tokenizer = opened(tokenizer_graph, tmp_path)
    plain = tokenizer.encode("a b", add_special_tokens=False)
    assert BEGIN not in plain
    assert END not in plain
    assert tokenizer.encode("a b", add_special_tokens=True) == [BEGIN, *plain, END]


def test_tokenizer_with_a_variable_for_special_tokens_obeys_it(
    tokenizer_graph: Graph, tmp_path: Path
) -> None:
    variable = opset.read_value(opset.constant(np.array(True)), "add_special_tokens")
    count = opset.select(variable, whole(1), whole(0)).output(0)
    with_special_tokens(tokenizer_graph, count)
    tokenizer_graph.add_sinks([opset.assign(variable, "add_special_tokens")])
    tokenizer = opened(tokenizer_graph, tmp_path)
    assert tokenizer.encode("a", add_special_tokens=True)[0] == BEGIN
    assert BEGIN not in tokenizer.encode("a", add_special_tokens=False)


@pytest.mark.parametrize("limit", [16, 30_000])
def test_tokenizer_that_cuts_long_texts_is_made_to_count_them(
    tokenizer_graph: Graph, tmp_path: Path, limit: int
) -> None:
    limited(tokenizer_graph, limit)
    tokenizer = opened(tokenizer_graph, tmp_path)
    assert len(tokenizer.encode("a " * 40_000, add_special_tokens=False)) > 40_000


def test_tokenizer_with_a_minimum_as_gguf_conversions_have_is_made_to_count(
    tokenizer_graph: Graph, tmp_path: Path
) -> None:
    [node] = nodes_of(tokenizer_graph, "CombineSegments")
    begins, ends = node.output(0), node.output(1)
    users = list(ends.get_target_inputs())
    length = opset.minimum(opset.subtract(ends, begins), whole(8192))
    cut = opset.add(begins, length)
    for user in users:
        user.replace_source_output(cut.output(0))
    tokenizer = opened(tokenizer_graph, tmp_path)
    assert len(tokenizer.encode("a " * 20_000, add_special_tokens=False)) > 20_000


def test_tokenizer_that_cuts_in_a_way_not_known_is_refused(
    tokenizer_graph: Graph, tmp_path: Path
) -> None:
    [result, *_] = tokenizer_graph.get_results()
    source = result.input_value(0)
    cut = opset.slice(source, constant([0]), constant([100]), constant([1]), constant([1]))
    result.input(0).replace_source_output(cut.output(0))
    with pytest.raises(PrepError, match=r"cuts long texts|no regular count"):
        opened(tokenizer_graph, tmp_path)


# --- detokenizers ---------------------------------------------------------------------------------

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WORDS = ["<unk>", "<s>", "</s>", *BYTES, "▁Hello", "▁world", "▁", "你", "好", ",", "▁,", "▁'s"]
FIRST_BYTE = 3


class ByteTokenizer:
    """Every text by its bytes, after the control marks."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [FIRST_BYTE + byte for byte in text.encode()]


def strings(values: Sequence[str]) -> list[Any]:
    """A constant string tensor, taken apart: begins, ends, bytes."""
    data = [value.encode() for value in values]
    ends = np.cumsum([len(word) for word in data]).astype(np.int32)
    begins = np.concatenate(([0], ends[:-1])).astype(np.int32)
    return [constant(begins), constant(ends), constant(np.frombuffer(b"".join(data), np.uint8))]


def replaced(outputs: list[Any], pattern: str, by: str) -> list[Any]:
    """A regular expression over the texts; ragged bounds before them are left alone."""
    ragged, texts = outputs[:-3], outputs[-3:]
    pattern_and_by = [constant(np.frombuffer(text.encode(), np.uint8)) for text in (pattern, by)]
    node = factory().create("RegexNormalization", [*texts, *pattern_and_by])
    return [*ragged, *node.outputs()]


def sentencepiece_detokenizer(folder: Path, *after: tuple[str, str]) -> Path:
    """As converted from Llama's tokenizer; `after`: what is replaced in the joined text."""
    ids = opset.parameter([-1, -1], np.int64)
    skipped = constant(np.array([0, 1, 2], np.int32))
    outputs = (
        factory()
        .create("VocabDecoder", [opset.convert(ids, "i32").output(0), *strings(WORDS), skipped])
        .outputs()
    )
    outputs = replaced(outputs, "▁", " ")
    outputs = [*outputs[:2], *factory().create("ByteFallback", outputs[2:]).outputs()]
    outputs = [*factory().create("FuzeRagged", outputs[:4]).outputs(), outputs[4]]
    for pattern, by in after:
        outputs = replaced(outputs, pattern, by)
    outputs = factory().create("UTF8Validate", outputs, {"replace_mode": False}).outputs()
    graph = openvino.Model(opset.string_tensor_pack(*outputs).outputs(), [ids], "detokenizer")
    path = folder / "openvino_detokenizer.xml"
    openvino.save_model(graph, str(path))
    return path


def test_detokenizer_with_byte_fallback_gives_bytes_and_spaces(tmp_path: Path) -> None:
    table = read_token_bytes(Graphs(), sentencepiece_detokenizer(tmp_path), ByteTokenizer())
    assert table.words[:3] == [b"<unk>", b"<s>", b"</s>"]
    assert table.words[3:259] == [bytes([byte]) for byte in range(256)]
    assert table.words[259:263] == [b" Hello", b" world", b" ", "你".encode()]
    assert table.special_ids == {0, 1, 2}
    assert (table.strip_leading_space, table.exact) == (False, True)
    euro = [FIRST_BYTE + byte for byte in "€".encode()]
    assert table.decode([1, 259, *euro, 260, 2]) == " Hello€ world"


def test_detokenizer_that_strips_the_first_space_is_followed(tmp_path: Path) -> None:
    path = sentencepiece_detokenizer(tmp_path, ("^ ", ""))
    table = read_token_bytes(Graphs(), path, ByteTokenizer())
    assert (table.strip_leading_space, table.exact) == (True, True)
    assert table.decode([1, 259, 260]) == "Hello world"


def test_detokenizer_that_cleans_spaces_up_is_used_but_not_exact(tmp_path: Path) -> None:
    path = sentencepiece_detokenizer(tmp_path, ("(?| ([\\.\\?\\!,])| ('[ms]))", "$1"))
    table = read_token_bytes(Graphs(), path, ByteTokenizer())
    assert not table.exact
    assert table.decode([259, 265]) == " Hello ,"


def test_detokenizer_that_changes_letters_is_refused(tmp_path: Path) -> None:
    path = sentencepiece_detokenizer(tmp_path, ("o", "0"))
    with pytest.raises(PrepError, match="detokenizer not understood"):
        read_token_bytes(Graphs(), path, ByteTokenizer())


def test_detokenizer_made_of_other_operations_is_refused(tmp_path: Path) -> None:
    ids = opset.parameter([-1, -1], np.int64)
    path = tmp_path / "openvino_detokenizer.xml"
    openvino.save_model(openvino.Model([opset.add(ids, ids).output(0)], [ids], "odd"), str(path))
    with pytest.raises(PrepError, match="detokenizer not understood"):
        read_token_bytes(Graphs(), path, ByteTokenizer())
