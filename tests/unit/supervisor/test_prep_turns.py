"""Whose job prep is sent next: tenants take turns, whatever each of them has in line."""

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from refloat.supervisor.prep_jobs import Job, JobLine
from refloat.wire.prep_messages import Tokenize


class Line:
    """A line of jobs, and the numbers of those that were sent."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.jobs = JobLine(window=1)
        self.sent: list[int] = []
        self._loop = loop

    def ask(self, tenant: str, *numbers: int) -> list[Job]:
        jobs = [
            Job(number, Tokenize(number, ["x"]), "a job", self._loop.create_future(), tenant)
            for number in numbers
        ]
        for job in jobs:
            self.jobs.add(job)
        self.send()
        return jobs

    def send(self) -> None:
        def send(message: msgspec.Struct) -> None:
            assert isinstance(message, Tokenize)
            self.sent.append(message.job)

        self.jobs.send_some(send)

    def work_off(self) -> list[int]:
        """All numbers, in the order sent."""
        while (head := self.jobs.head) is not None:
            assert self.jobs.take(head.number) is head
            self.send()
        return self.sent


@pytest.fixture
def line() -> Iterator[Line]:
    loop = asyncio.new_event_loop()
    yield Line(loop)
    loop.close()


def test_tenant_with_one_job_waits_for_one_of_each_other(line: Line) -> None:
    line.ask("many", *range(100))
    line.ask("more", *range(100, 200))
    line.ask("one", 7000)
    assert line.work_off().index(7000) <= 3


def test_jobs_of_one_tenant_keep_their_order(line: Line) -> None:
    line.jobs.window = 4
    line.ask("a", 1, 2, 3, 4, 5, 6)
    line.ask("b", 11, 12)
    assert line.work_off() == [1, 2, 3, 4, 5, 11, 6, 12]


def test_who_leaves_takes_no_turn(line: Line) -> None:
    line.ask("a", 1, 2, 3)
    [gone] = line.ask("b", 11)
    line.jobs.give_up(gone)
    line.ask("c", 21)
    assert line.work_off() == [1, 2, 21, 3]


def test_who_leaves_after_his_job_was_sent_keeps_its_place(line: Line) -> None:
    line.jobs.window = 2
    [first, _] = line.ask("a", 1, 2)
    line.jobs.give_up(first)
    assert line.jobs.head is first


def test_former_head_is_first_again_and_nobody_is_lost(line: Line) -> None:
    line.jobs.window = 3
    jobs = line.ask("a", 1, 2) + line.ask("b", 11, 12, 13) + line.ask("c", 21)
    assert line.sent == [1, 2, 11]
    jobs[1].answer.cancel()  # whoever asked has left
    assert line.jobs.recall() is jobs[0]
    assert line.jobs.head is None
    line.sent.clear()
    line.send()
    assert line.sent == [1, 11, 21]
    assert sorted(line.work_off()) == [1, 11, 12, 13, 21]
