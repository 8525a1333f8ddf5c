"""Stop strings: what is held, what goes out, and that cutting the text changes neither."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refloat.parsing.stop import StopFinder

#: Few letters, so that random texts and stop strings do meet.
LETTERS = st.text(alphabet="abé", max_size=30)
STOPS = st.lists(st.text(alphabet="abé", min_size=1, max_size=5), max_size=4)


def expected(text: str, stops: list[str], *, include_stop: bool) -> tuple[str, bool]:
    """The definition, word for word: the stop string complete first ends the text, then the longer."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if ending:
            cut = end if include_stop else end - max(map(len, ending))
            return text[:cut], True
    return text, False


def run(finder: StopFinder, pieces: list[str]) -> tuple[str, bool]:
    out, stopped = "", False
    for piece in pieces:
        scan = finder.push(piece)
        out += scan.text
        stopped = scan.stopped
    return out + finder.flush(), stopped


def cut(text: str, sizes: list[int]) -> list[str]:
    pieces: list[str] = []
    for size in sizes:
        pieces.append(text[:size])
        text = text[size:]
    return [*pieces, text]


@given(LETTERS, STOPS, st.lists(st.integers(0, 6), max_size=20), st.booleans())
def test_stop_finder_any_chunking_gives_the_defined_text(
    text: str, stops: list[str], sizes: list[int], include_stop: bool
) -> None:
    finder = StopFinder(stops, include_stop=include_stop)
    assert run(finder, cut(text, sizes)) == expected(text, stops, include_stop=include_stop)


@given(LETTERS, STOPS)
def test_stop_finder_held_text_is_always_a_beginning_of_a_stop_string(
    text: str, stops: list[str]
) -> None:
    finder = StopFinder(stops)
    out = ""
    for position, char in enumerate(text, start=1):
        scan = finder.push(char)
        out += scan.text
        if scan.stopped:
            break
        held = text[len(out) : position]
        assert not held or any(stop.startswith(held) for stop in stops)


@pytest.mark.case(107)
def test_stop_finder_stop_string_of_several_pieces_sends_nothing_of_it() -> None:
    finder = StopFinder(["4 5 6 7"])
    pieces = [finder.push(piece) for piece in ("1 ", "2 ", "3 ", "4 ", "5 ", "6 ", "7 ", "8 ")]
    assert "".join(piece.text for piece in pieces) == "1 2 3 "
    assert [piece.stopped for piece in pieces] == [False] * 6 + [True] * 2


def test_stop_finder_failed_match_is_sent_at_once() -> None:
    finder = StopFinder(["\n\nUser:"])
    assert finder.push("a\n\nUs").text == "a"
    assert finder.push("ually").text == "\n\nUsually"


def test_stop_finder_text_ends_inside_a_match_flushes_it() -> None:
    finder = StopFinder(["STOP"])
    assert finder.push("go STO").text == "go "
    assert finder.flush() == "STO"


def test_stop_finder_two_stop_strings_the_one_complete_first_wins() -> None:
    assert run(StopFinder(["xabc", "ab"]), ["xabc"]) == ("x", True)


def test_stop_finder_same_end_the_longer_one_wins() -> None:
    assert run(StopFinder(["b", "ab"]), ["a", "b"]) == ("", True)


def test_stop_finder_include_stop_sends_it_and_holds_nothing() -> None:
    finder = StopFinder(["END"], include_stop=True)
    assert finder.push("the EN").text == "the EN"
    scan = finder.push("D of it")
    assert (scan.text, scan.stopped) == ("D", True)


@pytest.mark.case(109)
@pytest.mark.parametrize("stops", [[], [""], ["", ""]])
def test_stop_finder_no_usable_stop_string_changes_nothing(stops: list[str]) -> None:
    assert run(StopFinder(stops), ["some", " text"]) == ("some text", False)


def test_stop_finder_after_the_stop_nothing_comes_out() -> None:
    finder = StopFinder(["."])
    assert finder.push("a.b").text == "a"
    assert finder.push("more") == ("", True)
    assert finder.flush() == ""


def test_stop_finder_repetitive_stop_string_holds_its_longest_beginning() -> None:
    finder = StopFinder(["aab"])
    assert finder.push("aaaa").text == "aa"
    assert finder.push("b") == ("", True)
