"""Connections that stand still with bytes to be sent are cut; those that move, however slowly, stay."""

from refloat.api.slow_readers import SlowReaders


class Transport:
    """Unsent bytes, as somebody else sets them."""

    def __init__(self, unsent: int) -> None:
        self.unsent = unsent
        self.is_aborted = False

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.is_aborted = True


def test_connection_that_stands_still_is_cut_after_the_time_and_not_before() -> None:
    readers, frozen = SlowReaders(10.0), Transport(500)
    assert [readers.look([frozen], at_s) for at_s in (100.0, 105.0, 109.9)] == [0, 0, 0]
    assert not frozen.is_aborted
    assert readers.look([frozen], 110.0) == 1
    assert frozen.is_aborted


def test_connection_that_takes_a_little_is_never_cut() -> None:
    readers, slow = SlowReaders(10.0), Transport(1000)
    for second in range(0, 900, 9):
        assert readers.look([slow], float(second)) == 0
        slow.unsent -= 1


def test_more_to_be_sent_is_no_sign_of_life() -> None:
    readers, frozen = SlowReaders(10.0), Transport(100)
    for second in range(10):
        assert readers.look([frozen], float(second)) == 0
        frozen.unsent += 100
    assert readers.look([frozen], 10.0) == 1


def test_idle_connection_is_none_of_its_affairs() -> None:
    readers, idle = SlowReaders(10.0), Transport(0)
    assert [readers.look([idle], at_s) for at_s in (0.0, 50.0)] == [0, 0]
    idle.unsent = 10  # from now on it counts
    assert [readers.look([idle], at_s) for at_s in (60.0, 69.0, 70.0)] == [0, 0, 1]


def test_connection_that_is_gone_is_forgotten() -> None:
    readers, first, second = SlowReaders(10.0), Transport(10), Transport(10)
    readers.look([first], 0.0)
    readers.look([second], 5.0)
    assert readers.look([first, second], 12.0) == 0
