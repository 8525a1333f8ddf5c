"""A child's last words, bounded."""

from refloat.supervisor.stderr_ring import RING_BYTES, StderrRing


def test_ring_keeps_the_newest_bytes_only() -> None:
    ring = StderrRing()
    ring.feed(b"old" + b"x" * RING_BYTES)
    ring.feed(b"new")
    assert len(ring.text()) == RING_BYTES
    assert ring.text().endswith("xnew")


def test_ring_cuts_lines_across_reads_and_drops_control_characters() -> None:
    ring = StderrRing()
    assert ring.feed(b"one\ntw") == ["one"]
    assert ring.feed(b"o\x1b[31m\r\n") == ["two [31m"]


def test_ring_endless_line_is_logged_in_pieces_not_kept() -> None:
    ring = StderrRing()
    lines = ring.feed(b"y" * 10_000)
    assert [len(line) for line in lines] == [500]
    assert ring.feed(b"end\n") == ["end"]


def test_ring_flood_of_lines_is_counted_not_logged() -> None:
    lines = StderrRing().feed(b"line\n" * 1_000)
    assert len(lines) == 51
    assert lines[-1] == "(950 more lines not logged)"


def test_ring_bytes_that_are_no_text_are_replaced() -> None:
    ring = StderrRing()
    assert ring.feed(b"\xc3(\n") == ["\ufffd("]
    assert ring.text() == "\ufffd(\n"
