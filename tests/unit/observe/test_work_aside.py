"""Blocking work beside the loop: its result, its exception, its lateness, its end after the loop's."""

import asyncio
import threading

import pytest

from refloat.observe.aside import aside


def test_aside_gives_the_result_and_raises_the_exception() -> None:
    async def scenario() -> None:
        assert await aside(lambda: 7, 10.0) == 7
        with pytest.raises(ZeroDivisionError):
            await aside(lambda: 1 // 0, 10.0)

    asyncio.run(scenario())


def test_aside_that_hangs_holds_up_neither_its_caller_nor_the_end_of_the_loop() -> None:
    release = threading.Event()
    ended = threading.Event()

    def hang() -> None:
        release.wait(30.0)
        ended.set()

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            await aside(hang, 0.01)

    asyncio.run(scenario())  # returns although the thread hangs
    assert not ended.is_set()
    release.set()
    assert ended.wait(10.0)
