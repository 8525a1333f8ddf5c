"""Generations that somebody may come back for: recorded, attached to, orphaned, replayed, let go."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from refloat.generation.events import Completed, Event, Failed
from refloat.generation.kept import Attendance
from refloat.generation.orphans import MAX_ORPHANS, Windows
from refloat.generation.replay import MissedError
from refloat.generation.request import Retention
from refloat.generation.service import Generations
from refloat.generation.session import Session
from refloat.generation.streams import Streams
from refloat.supervisor.fleet import Availability
from refloat.wire.problem import ProblemError, ProblemKind
from tests.unit.generation.conftest import MODEL, Stage, text_of

PROMPT = (1, 2, 3)
WINDOWS = Windows(reconnect_s=10.0, retry_s=2.0, replay_s=60.0)
BODY = b"digest"


class House:
    """A stage behind the door that the api sees."""

    def __init__(self, windows: Windows = Windows(), **more: Any) -> None:  # noqa: B008 - immutable
        kept = {n: more.pop(n) for n in ("replay_budget_bytes", "stream_buffer_bytes") if n in more}
        self.stage = Stage(**more)
        self.streams = Streams(self.stage.budget, windows, clock=self.stage.clock, **kept)
        self.door = Generations({MODEL: self.stage.intake}, self.stage.fleet, self.streams)

    async def ask(
        self,
        prompt: tuple[int, ...] = PROMPT,
        *,
        max_tokens: int = 4,
        tenant: str = "t",
        deadline_s: float | None = None,
        **kept: Any,
    ) -> Session | Attendance:
        kept.setdefault("body_digest", BODY)
        retention = Retention(**kept)
        request = self.stage.request(
            prompt,
            max_tokens=max_tokens,
            tenant=tenant,
            retention=retention,
            deadline_s=deadline_s,
        )
        return await self.door.submit(request)

    async def keyed(self, key: str = "k", **more: Any) -> Attendance:
        found = await self.ask(idempotency_key=key, **more)
        assert isinstance(found, Attendance)
        return found

    def assert_empty(self) -> None:
        self.stage.run_dry()
        self.streams.sweep()
        assert self.streams.count == self.streams.orphans == 0
        self.stage.assert_clean()


async def rest(session: Session | Attendance) -> list[Event]:
    """All that comes from here on, to the end."""
    events: list[Event] = []
    async with asyncio.timeout(5):
        while not events or not isinstance(events[-1], Completed | Failed):
            events += await session.next_events()
    return events


def text(events: Sequence[Event]) -> str:
    return "".join(getattr(event, "text", "") for event in events)


def test_plain_request_is_not_recorded() -> None:
    house = House()
    house.stage.ready()

    async def scene() -> None:
        session = await house.ask()
        assert isinstance(session, Session)
        assert house.streams.count == 0

    asyncio.run(scene())


def test_repeated_key_gets_the_running_generation_and_then_the_complete_one() -> None:
    house = House()
    replica = house.stage.ready()

    async def scene() -> None:
        first = await house.keyed()
        house.stage.step(2)
        second = await house.keyed()
        assert (first.is_attached, second.is_attached) == (False, True)
        assert first.stream_id == second.stream_id is not None
        house.stage.run_dry()
        events = await rest(first)
        assert text(events) == text_of(PROMPT, 4)
        assert await rest(second) == events
        first.cancel()
        second.cancel()
        third = await house.keyed()
        assert await rest(third) == events
        third.cancel()
        assert len(replica.adds) == 1
        house.stage.clock.pass_s(61)
        house.assert_empty()
        assert (await house.keyed()).is_attached is False

    asyncio.run(scene())


def test_key_is_its_tenants_own_and_for_one_body() -> None:
    house = House()
    house.stage.ready()

    async def scene() -> None:
        await house.keyed()
        assert (await house.keyed(tenant="other")).is_attached is False
        with pytest.raises(ProblemError) as caught:
            await house.keyed(body_digest=b"another")
        assert caught.value.problem.kind is ProblemKind.IDEMPOTENCY_MISMATCH

    asyncio.run(scene())


def test_repeated_key_waits_for_the_first_to_be_admitted_and_takes_over_if_it_leaves() -> None:
    house = House()
    house.stage.publish(Availability.LOADING, facts=None)

    async def scene() -> None:
        first = asyncio.ensure_future(house.keyed())
        others = [asyncio.ensure_future(house.keyed()) for _ in range(2)]
        await asyncio.sleep(0)
        assert house.stage.metric("refloat_waiting") == 1
        first.cancel()
        await asyncio.sleep(0)
        replica = house.stage.ready()
        second, third = await asyncio.gather(*others)
        assert sorted([second.is_attached, third.is_attached]) == [False, True]
        house.stage.run_dry()
        assert text(await rest(third)) == text_of(PROMPT, 4)
        assert len(replica.adds) == 1

    asyncio.run(scene())


def test_repeated_key_has_a_deadline_of_its_own() -> None:
    house = House()
    house.stage.publish(Availability.LOADING, facts=None)

    async def scene() -> None:
        first = asyncio.ensure_future(house.keyed())
        await asyncio.sleep(0)
        with pytest.raises(ProblemError) as caught:  # the first one is not admitted yet
            await house.keyed(deadline_s=0.01)
        assert caught.value.problem.kind is ProblemKind.DEADLINE_EXCEEDED
        house.stage.ready()
        attendance = await first
        hasty = await house.keyed(deadline_s=0.01)
        assert hasty.is_attached
        [failed] = await rest(hasty)
        assert isinstance(failed, Failed)
        assert failed.problem.kind is ProblemKind.DEADLINE_EXCEEDED
        hasty.cancel()
        house.stage.run_dry()
        assert text(await rest(attendance)) == text_of(PROMPT, 4)

    asyncio.run(scene())


def test_failure_is_not_given_to_who_tries_again() -> None:
    house = House()
    house.stage.ready()

    async def scene() -> None:
        first = await house.keyed(max_tokens=50)
        house.stage.step()
        house.stage.lose(Availability.FAILED)
        assert isinstance((await rest(first))[-1], Failed)
        first.cancel()
        replica = house.stage.ready()
        again = await house.keyed()
        assert not again.is_attached
        assert len(replica.adds) == 1

    asyncio.run(scene())


def test_stream_is_resumed_behind_any_event_and_goes_on_live() -> None:
    house = House(WINDOWS)
    house.stage.ready()

    async def scene() -> None:
        first = await house.ask(stream=True, max_tokens=6)
        assert isinstance(first, Attendance)
        house.stage.step(3)
        seen = await first.next_events()
        first.cancel()
        assert house.streams.orphans == 1
        assert first.stream_id is not None
        kept = house.streams.find("t", first.stream_id)
        assert kept is not None
        assert house.streams.find("other", first.stream_id) is None
        house.stage.step()
        for after in range(len(seen) + 1):
            again = house.streams.resume(kept, after)
            assert house.streams.orphans == 0
            got = list(await again.next_events())
            assert text(seen[:after]) + text(got) == text_of(PROMPT, 4)
            again.cancel()
        last = house.streams.resume(kept, 0)
        house.stage.run_dry()
        assert text(await rest(last)) == text_of(PROMPT, 6)
        last.cancel()
        house.stage.clock.pass_s(61)
        house.assert_empty()

    asyncio.run(scene())


def test_readers_of_a_kept_stream_are_each_handed_what_they_have_not_read() -> None:
    house = House(WINDOWS)
    house.stage.ready()

    async def scene() -> None:
        first = await house.ask(stream=True, max_tokens=6)
        assert isinstance(first, Attendance)
        second = house.streams.resume(first.kept, 0)
        read: dict[Attendance, list[Event]] = {first: [], second: []}
        waits: list[asyncio.Task[Sequence[Event]]] = []
        for reader, events in read.items():
            reader.hand_to(lambda news, events=events: events.extend(news) is None)
            waits.append(asyncio.ensure_future(reader.next_events()))
        await asyncio.sleep(0)
        for _ in range(3):
            house.stage.step()
            await asyncio.sleep(0)
        assert [text(events) for events in read.values()] == [text_of(PROMPT, 3)] * 2
        assert not any(wait.done() for wait in waits)
        assert (first.after, second.after) == (3, 3)
        house.stage.run_dry()
        for events, wait in zip(read.values(), waits, strict=True):
            assert text(events + list(await wait)) == text_of(PROMPT, 6)
        assert first.is_at_end
        first.cancel()
        second.cancel()
        house.stage.clock.pass_s(61)
        house.assert_empty()

    asyncio.run(scene())


def test_nobody_came_back_in_the_window_so_it_is_stopped() -> None:
    house = House(WINDOWS)
    replica = house.stage.ready()

    async def scene() -> None:
        first = await house.ask(stream=True, max_tokens=50)
        house.stage.step()
        first.cancel()
        house.stage.clock.pass_s(9.9)
        house.streams.sweep()
        assert replica.cancels == []
        house.stage.clock.pass_s(0.2)
        house.streams.sweep()
        assert len(replica.cancels) == 1
        house.stage.clock.pass_s(61)
        house.assert_empty()

    asyncio.run(scene())


def test_sdk_that_tries_again_gets_what_it_left_and_only_if_it_left() -> None:
    house = House()
    replica = house.stage.ready()

    async def scene() -> None:
        first = await house.ask(sdk_retry=0)
        twin = await house.ask(sdk_retry=0)  # the same words, from somebody who is still there
        house.stage.step()
        first.cancel()
        again = await house.ask(sdk_retry=1)
        assert isinstance(again, Attendance)
        assert again.is_attached
        assert again.stream_id is None
        stranger = await house.ask(sdk_retry=1, tenant="other")
        assert isinstance(stranger, Attendance)
        assert not stranger.is_attached
        house.stage.run_dry()
        for session in (again, twin, stranger):
            assert text(await rest(session)) == text_of(PROMPT, 4)
            session.cancel()
        assert len(replica.adds) == 3
        house.assert_empty()  # delivered: nothing is remembered

    asyncio.run(scene())


def test_sdk_gets_an_answer_that_was_complete_after_it_left() -> None:
    house = House()
    house.stage.ready()

    async def scene() -> None:
        first = await house.ask(sdk_retry=0)
        first.cancel()
        house.stage.run_dry()
        again = await house.ask(sdk_retry=1)
        assert text(await rest(again)) == text_of(PROMPT, 4)
        again.cancel()
        house.assert_empty()

    asyncio.run(scene())


def test_sdk_that_has_seen_some_of_a_stream_is_gone_for_good() -> None:
    house = House()
    house.stage.ready()

    async def scene() -> None:
        first = await house.ask(sdk_retry=0, stream=True, max_tokens=50)
        house.stage.step()
        assert await first.next_events()
        assert house.stage.budget.held_bytes < 3 * 4096 + 1000  # what was read is not kept
        first.cancel()
        assert house.streams.orphans == 0
        house.assert_empty()

    asyncio.run(scene())


@pytest.mark.parametrize("kept", [{"idempotency_key": "k"}, {"sdk_retry": 0}])
def test_tolerated_orphan_ends_when_somebody_waits(kept: dict[str, Any]) -> None:
    house = House(max_num_seqs=1)
    replica = house.stage.ready()

    async def scene() -> None:
        first = await house.ask(max_tokens=50, **kept)
        house.stage.step()
        first.cancel()
        house.streams.sweep()
        assert replica.cancels == []
        other = await house.ask((5,))
        assert len(replica.cancels) == 1
        house.stage.run_dry()
        assert text(await rest(other)) == text_of((5,), 4)
        house.stage.clock.pass_s(61)
        house.assert_empty()

    asyncio.run(scene())


def test_client_that_leaves_others_waiting_is_no_orphan() -> None:
    house = House(max_num_seqs=1)
    replica = house.stage.ready()

    async def scene() -> None:
        first = await house.ask(max_tokens=50, sdk_retry=0)
        house.stage.step()
        await house.ask((5,))
        first.cancel()
        assert len(replica.cancels) == 1

    asyncio.run(scene())


def test_granted_orphans_go_on_to_their_end_whoever_waits_up_to_their_quota() -> None:
    house = House(max_num_seqs=2)
    replica = house.stage.ready()

    async def scene() -> None:
        granted = [await house.ask(max_tokens=20, finish_quota=1) for _ in range(2)]
        house.stage.step()
        waiting = await house.ask((5,))
        granted[0].cancel()
        assert replica.cancels == []
        granted[1].cancel()  # one is all that is granted
        assert len(replica.cancels) == 1
        house.stage.clock.pass_s(10_000)
        house.streams.sweep()
        house.stage.run_dry()
        assert text(await rest(waiting)) == text_of((5,), 4)
        assert house.stage.metric("refloat_generations_total", state="done") == 2
        house.stage.clock.pass_s(61)
        house.assert_empty()

    asyncio.run(scene())


def test_orphans_of_a_tenant_are_bounded() -> None:
    house = House(WINDOWS, max_num_seqs=40, blocks=None)
    house.stage.ready()

    async def scene() -> None:
        for _ in range(MAX_ORPHANS + 3):
            (await house.ask(stream=True, max_tokens=50)).cancel()
        assert house.streams.orphans == MAX_ORPHANS
        (await house.ask(stream=True, max_tokens=50, tenant="other")).cancel()
        assert house.streams.orphans == MAX_ORPHANS + 1

    asyncio.run(scene())


def test_client_may_say_that_nothing_goes_on_without_it() -> None:
    house = House(WINDOWS)
    replica = house.stage.ready()

    async def scene() -> None:
        session = await house.ask(idempotency_key="k", stream=True, cancel=True, max_tokens=50)
        house.stage.step()
        session.cancel()
        assert len(replica.cancels) == 1

    asyncio.run(scene())


def test_complete_answers_are_kept_within_their_budget_the_heaviest_tenants_go_first() -> None:
    house = House(replay_budget_bytes=64 * 1024, context_length=1000, blocks=None)
    house.stage.ready()

    async def scene() -> None:
        for number in range(12):
            tenant = "small" if number == 0 else "large"
            session = await house.keyed(f"k{number}", tenant=tenant, max_tokens=30)
            house.stage.run_dry()
            await rest(session)
            session.cancel()
        house.streams.sweep()
        assert 0 < house.stage.budget.held_bytes <= 64 * 1024
        assert (await house.keyed("k0", tenant="small", max_tokens=30)).is_attached
        assert (await house.keyed("k11", tenant="large", max_tokens=30)).is_attached
        assert not (await house.keyed("k1", tenant="large", max_tokens=30)).is_attached

    asyncio.run(scene())


def test_longest_stream_keeps_its_newest_events_alone() -> None:
    house = House(WINDOWS, replay_budget_bytes=64 * 1024, context_length=1000, blocks=None)
    house.stage.ready()

    async def scene() -> None:
        session = await house.ask(stream=True, max_tokens=300, idempotency_key="k")
        assert isinstance(session, Attendance)
        read = 0
        for _ in range(300):
            house.stage.step()
            read += len(await session.next_events())
        kept = session.kept
        assert kept.recording.dropped > 100
        assert kept.recording.held_bytes <= 16 * 1024
        with pytest.raises(MissedError):
            house.streams.resume(kept, 3)
        assert len(await house.streams.resume(kept, 250).next_events()) == read - 250
        again = await house.keyed(stream=True)
        assert not again.is_attached, "nobody is given a part for the whole"

    asyncio.run(scene())


def test_reader_that_missed_events_is_told_and_others_are_not_held_up() -> None:
    house = House(WINDOWS, replay_budget_bytes=64 * 1024, stream_buffer_bytes=8000,
                  context_length=1000, blocks=None)  # fmt: skip
    house.stage.ready()

    async def scene() -> None:
        slow = await house.ask(stream=True, max_tokens=300)
        assert isinstance(slow, Attendance)
        house.stage.step(20)
        assert not slow.is_overrun
        house.stage.step(200)
        assert slow.is_overrun
        [event] = await slow.next_events()
        assert isinstance(event, Failed)

    asyncio.run(scene())


def test_plain_reader_that_is_too_far_behind_ends_its_request_alone(
    stage_of: type[Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refloat.generation.session._PATIENCE_S", 0.0)
    stage = stage_of(context_length=1000, blocks=None)
    stage.intake._stream_buffer_bytes = 4000  # pyright: ignore[reportPrivateUsage]
    stage.ready()

    async def scene() -> None:
        frozen = await stage.submit(PROMPT, max_tokens=500)
        other = await stage.submit((5,), max_tokens=200)
        stage.step(100)
        async with asyncio.timeout(5):
            while not frozen.is_overrun:
                if other.has_events:
                    await other.next_events()
                await asyncio.sleep(0)
        assert stage.metric("refloat_aborted_total") == 1
        problem = (await stage.read(frozen)).problem
        assert problem.kind is ProblemKind.CLIENT_CLOSED
        stage.run_dry()
        assert not other.is_overrun
        assert isinstance(other.terminal, Completed)

    asyncio.run(scene())


def test_drain_waits_for_orphans_too() -> None:
    house = House(WINDOWS)
    house.stage.ready()

    async def scene() -> None:
        (await house.ask(stream=True)).cancel()
        drain = asyncio.ensure_future(house.door.drain(30))
        await asyncio.sleep(0)
        assert not drain.done()
        house.stage.run_dry()
        assert await drain

    asyncio.run(scene())
