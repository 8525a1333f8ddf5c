"""A reader is called if it can be, and woken if not."""

import asyncio
from collections.abc import Callable

import pytest

from refloat.generation.doorbell import Doorbell


async def awaited(bell: Doorbell) -> "asyncio.Task[None]":
    reader = asyncio.create_task(bell.wait())
    await asyncio.sleep(0)
    assert bell.is_awaited
    return reader


async def turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_ring_wakes_the_reader_that_cannot_be_called() -> None:
    async def scene() -> None:
        bell = Doorbell()
        assert not bell.ring()
        reader = await awaited(bell)
        assert bell.ring()
        await turns()
        assert reader.done()
        assert not bell.is_awaited

    asyncio.run(scene())


@pytest.mark.parametrize("takes", [True, False])
def test_rings_of_one_turn_are_one_call_and_only_what_is_not_taken_wakes(takes: bool) -> None:
    async def scene() -> None:
        bell = Doorbell()
        calls: list[int] = []
        bell.answer_by(answer(calls, takes))
        assert not bell.ring(), "nobody waits"
        await turns()
        assert calls == []
        reader = await awaited(bell)
        assert bell.ring()
        assert bell.ring()
        assert calls == [], "never from within who rings"
        await turns()
        assert calls == [1]
        assert reader.done() is not takes
        reader.cancel()
        await asyncio.wait({reader})
        assert not bell.ring()

    asyncio.run(scene())


def answer(calls: list[int], takes: bool) -> Callable[[], bool]:
    def take() -> bool:
        calls.append(1)
        return takes

    return take


def test_error_of_the_call_is_raised_where_the_reader_waits() -> None:
    async def scene() -> None:
        bell = Doorbell()

        def take() -> bool:
            raise ValueError("broken")

        bell.answer_by(take)
        reader = await awaited(bell)
        bell.ring()
        with pytest.raises(ValueError, match="broken"):
            await reader

    asyncio.run(scene())


def test_reader_that_has_left_is_not_called() -> None:
    async def scene() -> None:
        bell = Doorbell()
        calls: list[int] = []
        bell.answer_by(answer(calls, takes=True))
        reader = await awaited(bell)
        bell.ring()
        reader.cancel()
        await asyncio.wait({reader})
        await turns()
        assert calls == []

    asyncio.run(scene())
