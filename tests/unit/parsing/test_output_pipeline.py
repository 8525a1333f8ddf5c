"""From ids to final text: whole characters only, the same text for every way of pushing."""

import math
from codecs import utf_8_decode
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refloat.parsing.pipeline import LOGPROB_FLOOR, OutputPipeline, TextOut, TokenLogprob
from refloat.parsing.vocabulary import Vocabulary
from refloat.wire.messages import pack_ids
from refloat.wire.prep_messages import TokenTable

END = 256
#: Behind the 256 bytes and the end mark: pieces that begin, end and straddle characters.
PIECES = [
    b"Hello",
    b" world",
    "你".encode()[:2],
    "你".encode()[2:] + "好".encode()[:1],
    "好".encode()[1:],
    "👨‍👩‍👧".encode(),
    "🇨🇿".encode()[:5],
    "🇨🇿".encode()[5:],
    b"\xff",
    b"\xe4\x28",
    b"",
    b" ",
]
WORDS = [*(bytes([byte]) for byte in range(256)), b"<|im_end|>", *PIECES]
FIRST = 257


def vocabulary(*, strip: bool = False) -> Vocabulary:
    return Vocabulary.from_table(
        TokenTable(
            blob=b"".join(WORDS),
            lengths=pack_ids([len(word) for word in WORDS]),
            special_ids=(END,),
            strip_leading_space=strip,
        )
    )


PLAIN = vocabulary()
STRIPPING = vocabulary(strip=True)
IDS = st.lists(st.integers(0, len(WORDS) + 1), max_size=40)
SIZES = st.lists(st.integers(0, 5), max_size=40)


def text_of(ids: Sequence[int]) -> str:
    return b"".join(PLAIN.bytes_of(token) for token in ids).decode(errors="replace")


def run(pipeline: OutputPipeline, ids: Sequence[int], sizes: Sequence[int] = ()) -> TextOut:
    """Push in pieces of these sizes, then one by one, then flush."""
    text, entries, stopped = "", (), False
    start = 0
    for size in [*sizes, *[1] * len(ids)]:
        piece = ids[start : start + size]
        start += size
        out = pipeline.push(piece, [-float(token) for token in piece])
        text, entries, stopped = text + out.text, entries + out.logprobs, out.stopped
    out = pipeline.flush()
    return TextOut(text + out.text, entries + out.logprobs, stopped or out.stopped)


@pytest.mark.case(103)
@given(IDS, SIZES)
def test_pipeline_any_chunking_gives_the_text_of_all_ids(ids: list[int], sizes: list[int]) -> None:
    assert run(OutputPipeline(PLAIN), ids, sizes).text == text_of(ids)


@given(
    IDS, SIZES, st.lists(st.sampled_from(["o w", "好", "�", " ", "ab"]), max_size=3), st.booleans()
)
def test_pipeline_any_chunking_stops_at_the_same_place(
    ids: list[int], sizes: list[int], stop: list[str], include_stop: bool
) -> None:
    at_once = run(OutputPipeline(PLAIN, stop, include_stop=include_stop), ids, [len(ids)])
    in_pieces = run(OutputPipeline(PLAIN, stop, include_stop=include_stop), ids, sizes)
    assert in_pieces == at_once
    ends = [text_of(ids).index(text) for text in stop if text in text_of(ids)]
    assert at_once.stopped == bool(ends)
    if not include_stop and ends:
        assert not any(text in at_once.text for text in stop)


@pytest.mark.case(116)
@given(IDS, SIZES)
def test_pipeline_reporting_logprobs_their_bytes_decode_to_the_text(
    ids: list[int], sizes: list[int]
) -> None:
    out = run(OutputPipeline(PLAIN, logprobs=True), ids, sizes)
    assert b"".join(entry.raw for entry in out.logprobs).decode(errors="replace") == out.text
    assert out.text == text_of(ids)
    assert [entry.token_id for entry in out.logprobs] == [
        token for token in ids if PLAIN.bytes_of(token)
    ]
    assert all(entry.logprob == -float(entry.token_id) for entry in out.logprobs)


@given(IDS, SIZES, st.sampled_from(["o", "好", "\ufffd", " w"]), st.booleans())
def test_pipeline_reporting_with_a_stop_reports_only_tokens_whose_text_went_out(
    ids: list[int], sizes: list[int], stop: str, include_stop: bool
) -> None:
    out = run(OutputPipeline(PLAIN, [stop], include_stop=include_stop, logprobs=True), ids, sizes)
    reported = b"".join(entry.raw for entry in out.logprobs)
    assert out.text.startswith(utf_8_decode(reported, "replace", False)[0])
    if not out.stopped:
        assert reported.decode(errors="replace") == out.text


@given(IDS, SIZES)
def test_pipeline_pieces_with_their_logprobs_never_run_ahead_of_the_text(
    ids: list[int], sizes: list[int]
) -> None:
    pipeline = OutputPipeline(PLAIN, ["好"], logprobs=True)
    text, raw = "", b""
    for token in ids:
        out = pipeline.push([token], [0.0])
        text += out.text
        raw += b"".join(entry.raw for entry in out.logprobs)
        assert text.startswith(raw.decode(errors="replace"))


@given(st.text(max_size=30), SIZES)
def test_pipeline_valid_text_byte_by_byte_never_shows_a_replacement(
    text: str, sizes: list[int]
) -> None:
    ids = list(text.encode(errors="replace"))
    expected = text.encode(errors="replace").decode()
    pipeline = OutputPipeline(PLAIN)
    out = ""
    for token in ids:
        out += pipeline.push([token]).text
        assert expected.startswith(out)
    assert out + pipeline.flush().text == expected


@pytest.mark.case(106)
def test_pipeline_character_over_two_tokens_waits_and_comes_whole() -> None:
    pipeline = OutputPipeline(PLAIN)
    pieces = [pipeline.push([FIRST + n]).text for n in (0, 1, 2, 3, 4)]
    assert pieces == ["Hello", " world", "", "你", "好"]


def test_pipeline_flag_and_family_come_whole() -> None:
    pipeline = OutputPipeline(PLAIN)
    assert pipeline.push([FIRST + 5]).text == "👨‍👩‍👧"
    assert pipeline.push([FIRST + 6]).text + pipeline.push([FIRST + 7]).text == "🇨🇿"


@pytest.mark.case(104)
def test_pipeline_broken_bytes_become_replacement_characters_once_proven() -> None:
    pipeline = OutputPipeline(PLAIN)
    assert pipeline.push([0xC3]).text == ""
    assert pipeline.push([0x28]).text == "\ufffd("
    assert pipeline.push([0x80]).text == "\ufffd"


@pytest.mark.case(102)
def test_pipeline_ends_inside_a_character_shows_one_replacement_at_the_flush() -> None:
    pipeline = OutputPipeline(PLAIN)
    assert pipeline.push([FIRST + 2]).text == ""
    assert pipeline.flush() == TextOut("\ufffd", (), False)
    assert pipeline.flush() == TextOut("", (), False)


def test_pipeline_end_mark_has_no_text_and_no_logprob() -> None:
    pipeline = OutputPipeline(PLAIN, logprobs=True)
    assert pipeline.push([END], [-0.5]) == TextOut("", (), False)


def test_pipeline_special_tokens_kept_are_spelt_out() -> None:
    pipeline = OutputPipeline(PLAIN, skip_special=False)
    assert pipeline.push([FIRST, END]).text == "Hello<|im_end|>"


def test_pipeline_logprobs_wait_for_the_character_and_come_together() -> None:
    pipeline = OutputPipeline(PLAIN, logprobs=True)
    assert pipeline.push([FIRST + 2], [-1.0]) == TextOut("", (), False)
    out = pipeline.push([FIRST + 3], [-2.0])
    assert out.text == "你"
    assert out.logprobs == (TokenLogprob(FIRST + 2, PIECES[2], -1.0),)
    assert [entry.logprob for entry in pipeline.push([FIRST + 4], [-3.0]).logprobs] == [-2.0, -3.0]


def test_pipeline_token_cut_by_a_stop_string_is_not_reported() -> None:
    pipeline = OutputPipeline(PLAIN, ["wor"], logprobs=True)
    first = pipeline.push([FIRST], [-1.0])
    second = pipeline.push([FIRST + 1], [-2.0])
    assert (first.text, second.text, second.stopped) == ("Hello", " ", True)
    assert [entry.token_id for entry in first.logprobs + second.logprobs] == [FIRST]


def test_pipeline_held_token_waits_with_its_logprob() -> None:
    pipeline = OutputPipeline(PLAIN, [" wood"], logprobs=True)
    assert pipeline.push(list(b" wo"), [-1.0, -2.0, -3.0]) == TextOut("", (), False)
    out = pipeline.push(list(b"r"), [-4.0])
    assert out.text == " wor"
    assert [entry.logprob for entry in out.logprobs] == [-1.0, -2.0, -3.0, -4.0]


def test_pipeline_after_its_stop_string_says_nothing_more() -> None:
    pipeline = OutputPipeline(PLAIN, ["o"])
    assert pipeline.push([FIRST]) == TextOut("Hell", (), True)
    assert pipeline.push([FIRST]) == TextOut("", (), True)
    assert pipeline.flush() == TextOut("", (), True)


def test_pipeline_pushed_after_its_end_says_nothing_more() -> None:
    pipeline = OutputPipeline(PLAIN)
    pipeline.flush()
    assert pipeline.push([FIRST]) == TextOut("", (), False)


@pytest.mark.case(114)
@pytest.mark.parametrize("logprob", [-math.inf, math.nan, -1e30])
def test_pipeline_logprob_that_json_cannot_hold_becomes_the_floor(logprob: float) -> None:
    (entry,) = OutputPipeline(PLAIN, logprobs=True).push([FIRST], [logprob]).logprobs
    assert entry.logprob == LOGPROB_FLOOR


def test_pipeline_engine_without_logprobs_reports_none() -> None:
    assert OutputPipeline(PLAIN, logprobs=True).push([FIRST]) == TextOut("Hello", (), False)


def test_pipeline_fewer_logprobs_than_ids_is_refused() -> None:
    with pytest.raises(ValueError):
        OutputPipeline(PLAIN, logprobs=True).push([FIRST, FIRST], [0.0])


@pytest.mark.parametrize("logprobs", [False, True])
def test_pipeline_stripping_takes_one_space_from_the_beginning_only(logprobs: bool) -> None:
    pipeline = OutputPipeline(STRIPPING, logprobs=logprobs)
    ids = [END, FIRST + 1, FIRST + 1, FIRST + 11, FIRST]
    out = run(pipeline, ids)
    assert out.text == "world world Hello"
    if logprobs:
        assert b"".join(entry.raw for entry in out.logprobs) == out.text.encode()


def test_pipeline_text_that_goes_on_keeps_its_leading_space() -> None:
    assert OutputPipeline(STRIPPING, continues_text=True).push([FIRST + 1]).text == " world"


def test_pipeline_lone_space_token_at_the_beginning_is_stripped_whole() -> None:
    pipeline = OutputPipeline(STRIPPING, logprobs=True)
    assert pipeline.push([FIRST + 11], [-1.0]) == TextOut("", (), False)
    assert pipeline.push([FIRST + 1], [-1.0]).text == " world"


def test_pipeline_empty_push_gives_nothing() -> None:
    assert OutputPipeline(PLAIN, ["x"], logprobs=True).push([], []) == TextOut("", (), False)


@given(IDS, SIZES, st.integers(0, 12))
def test_text_of_first_tokens_is_never_taken_for_a_stop_string(
    ids: list[int], sizes: list[int], min_tokens: int
) -> None:
    """However it is pushed: nothing stops before `min_tokens`, and the pieces give one text."""
    whole = OutputPipeline(PLAIN, stop=["l", "\n"], min_tokens=min_tokens, logprobs=True)
    pieces = OutputPipeline(PLAIN, stop=["l", "\n"], min_tokens=min_tokens, logprobs=True)
    logprobs = [-1.0] * len(ids)
    first = whole.push(ids, logprobs)
    rest = whole.flush()
    text, stopped, start = "", False, 0
    for size in [*sizes, *([1] * len(ids))]:
        out = pieces.push(ids[start : start + size], logprobs[start : start + size])
        start += size
        text, stopped = text + out.text, stopped or out.stopped
    text += pieces.flush().text
    assert text == first.text + rest.text
    assert stopped == first.stopped
    assert text.startswith(text_of(ids[:min_tokens]).rstrip("\ufffd"))


def test_stop_string_after_first_tokens_is_found() -> None:
    pipeline = OutputPipeline(PLAIN, stop=["lo"], min_tokens=2)
    assert pipeline.push([FIRST, FIRST]).text == "HelloHello"
    out = pipeline.push([FIRST])
    assert (out.text, out.stopped) == ("Hel", True)
