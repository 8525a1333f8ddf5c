"""Prep under supervision: jobs that hang, kill or wait, whatever the worker does meanwhile."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from refloat.supervisor.fleet import Availability
from refloat.supervisor.lifecycle import WorkerState
from refloat.wire.faults import FaultKind
from refloat.wire.guide import Guide, GuideKind, GuideRequest
from refloat.wire.problem import ProblemError, ProblemKind, TooManyTokensError

pytestmark = pytest.mark.process

Supervise = Callable[..., AbstractAsyncContextManager[Any]]
Make = Callable[..., Any]


#: What is asked of prep beside other jobs; the last one is refused.
_WISHES = [f"x{n}" for n in range(4)] + ["BAD"]


@dataclass
class Chat:
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    template_kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    add_generation_prompt: bool = True
    continue_final_message: bool = False


def chat(text: str) -> Chat:
    return Chat([{"role": "user", "content": text}])


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(45):
            await scenario()

    asyncio.run(whole())


async def kind_of(job: Awaitable[Any]) -> ProblemKind:
    with pytest.raises(ProblemError) as caught:
        await job
    return caught.value.problem.kind


def test_prep_answers_while_the_worker_cannot_load(
    supervise: Supervise, knobs: Make, odd_command: Make
) -> None:
    async def scenario() -> None:
        async with supervise(knobs=knobs(worker_command=odd_command("silent"))) as world:
            prep = world.supervisor.prep
            assert await prep.render(chat("abc")) == [97, 98, 99]
            assert await prep.tokenize(["a", "bc"], add_special_tokens=False) == [[97], [98, 99]]
            with pytest.raises(TooManyTokensError, match="3 tokens"):
                await prep.render(chat("abc"), most=2)
            assert await prep.detokenize([104, 105]) == "hi"
            assert prep.ready_info.vocab_size == 256
            assert world.snapshot.availability is Availability.LOADING

    run(scenario)


def test_grammars_are_made_beside_other_jobs_and_again_after_a_loss(
    supervise: Supervise, knobs: Make, odd_command: Make
) -> None:
    async def scenario() -> None:
        async with supervise(knobs=knobs(worker_command=odd_command("silent"))) as world:
            prep = world.supervisor.prep
            asked = [prep.make_guide(GuideRequest(GuideKind.REGEX, text, "p")) for text in _WISHES]
            asked += [prep.resume_guide(Guide("abc"), text) for text in ("ab", "x")]
            jobs = [asyncio.ensure_future(each) for each in asked]
            assert await prep.render(chat("abc")) == [97, 98, 99]  # it waits for none of them
            os.kill(prep.slot.child.pid, signal.SIGKILL)
            assert await prep.render(chat("de")) == [100, 101]
            assert not any(job.done() for job in jobs)
            assert await prep.detokenize([104]) == "h"  # upon which the stand-in answers them
            made = await asyncio.gather(*jobs, return_exceptions=True)
            assert made[: len(_WISHES) - 1] == [Guide(text) for text in _WISHES[:-1]]
            refused = made[len(_WISHES) - 1]
            assert isinstance(refused, ProblemError)
            assert refused.problem.kind is ProblemKind.INVALID_REQUEST
            assert made[len(_WISHES) :] == [Guide("c"), None]
            checks = [prep.check_guide(Guide("abc"), text, is_whole=True) for text in ("abc", "x")]
            held = asyncio.gather(*checks)
            assert await prep.render(chat("a")) == [97]
            assert await prep.detokenize([104]) == "h"
            assert await held == [True, False]

    run(scenario)


def test_prep_answers_after_the_model_has_failed(
    supervise: Supervise, knobs: Make, odd_command: Make
) -> None:
    async def scenario() -> None:
        async with supervise(knobs=knobs(worker_command=odd_command("die"))) as world:
            await world.until_available(Availability.FAILED)
            assert await world.supervisor.prep.detokenize([104, 105]) == "hi"

    run(scenario)


def test_prep_refusal_reaches_its_caller_unchanged(supervise: Supervise) -> None:
    async def scenario() -> None:
        async with supervise() as world:
            with pytest.raises(ProblemError) as caught:
                await world.supervisor.prep.render(chat("REFUSE"))
            assert caught.value.problem.param == "messages[0]"

    run(scenario)


def test_prep_hang_is_blamed_on_the_job_at_the_head_alone(
    supervise: Supervise, knobs: Make
) -> None:
    async def scenario() -> None:
        async with supervise(knobs=knobs(prep_job_limit_s=0.4)) as world:
            prep = world.supervisor.prep
            first = prep.slot.worker_id
            jobs = [prep.render(chat(text)) for text in ("a", "HANG", "b", *"cdefghijklmnop")]
            answers: list[Any] = await asyncio.gather(*jobs, return_exceptions=True)
            problem = answers.pop(1).problem
            assert problem.kind is ProblemKind.INVALID_REQUEST
            assert "the chat template took longer than 0.4 s" in problem.message
            assert answers == [[ord(text)] for text in "abcdefghijklmnop"]
            assert prep.slot.worker_id > first

    run(scenario)


def test_prep_that_somebody_stops_is_replaced_and_no_job_is_blamed(
    supervise: Supervise, knobs: Make
) -> None:
    async def scenario() -> None:
        async with supervise(knobs=knobs(prep_job_limit_s=0.2, crash_limit=9)) as world:
            prep = world.supervisor.prep
            await prep.render(chat("a"))
            for _ in range(2):  # a job that is blamed would be convicted the second time
                first = prep.slot.worker_id
                os.kill(prep.slot.child.pid, signal.SIGSTOP)
                jobs = [prep.render(chat(text)) for text in "bcd"]
                assert await asyncio.gather(*jobs) == [[98], [99], [100]]
                assert prep.slot.worker_id > first

    run(scenario)


def test_prep_hostile_jobs_do_not_open_the_breaker(supervise: Supervise, knobs: Make) -> None:
    async def scenario() -> None:
        async with supervise(knobs=knobs(prep_job_limit_s=0.2, crash_limit=1)) as world:
            prep = world.supervisor.prep
            for _ in range(3):
                assert await kind_of(prep.render(chat("HANG"))) is ProblemKind.INVALID_REQUEST
            assert await kind_of(prep.render(chat("DIE"))) is ProblemKind.POISON_REQUEST
            assert await prep.render(chat("a")) == [97]
            assert world.supervisor.prep.slot.state is WorkerState.READY

    run(scenario)


def test_prep_killer_is_tried_twice_and_its_neighbours_survive(supervise: Supervise) -> None:
    async def scenario() -> None:
        async with supervise() as world:
            prep = world.supervisor.prep
            jobs = [prep.render(chat(text)) for text in ("a", "DIE", "b", "DIE", "c")]
            answers: list[Any] = await asyncio.gather(*jobs, return_exceptions=True)
            kinds = [answers.pop(index).problem.kind for index in (3, 1)]
            assert kinds == [ProblemKind.POISON_REQUEST] * 2
            assert answers == [[97], [98], [99]]

    run(scenario)


def test_prep_death_during_an_innocent_job_is_not_noticed_by_its_caller(
    supervise: Supervise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODD_CHILD_MARKER", str(tmp_path / "died"))

    async def scenario() -> None:
        async with supervise() as world:
            ids = await world.supervisor.prep.render(chat("DIE ONCE"))
            assert ids == list(b"DIE ONCE")
            assert (tmp_path / "died").exists()

    run(scenario)


def test_prep_caller_that_leaves_harms_nobody(supervise: Supervise, knobs: Make) -> None:
    async def scenario() -> None:
        async with supervise(knobs=knobs(prep_job_limit_s=0.4)) as world:
            prep = world.supervisor.prep
            await prep.render(chat("a"))
            leaver = asyncio.ensure_future(prep.render(chat("HANG")))
            stayer = asyncio.ensure_future(prep.render(chat("b")))
            await asyncio.sleep(0)
            leaver.cancel()
            assert await stayer == [98]

    run(scenario)


def test_prep_that_never_comes_up_answers_with_the_wait_limit(
    supervise: Supervise, knobs: Make, odd_command: Make
) -> None:
    async def scenario() -> None:
        quick = knobs(prep_command=odd_command("silent"), prep_wait_limit_s=0.3)
        async with supervise(knobs=quick) as world:
            kind = await kind_of(world.supervisor.prep.render(chat("a")))
            assert kind is ProblemKind.MODEL_LOADING

    run(scenario)


def test_prep_without_a_tokenizer_fails_the_model_and_ends_its_worker(
    supervise: Supervise, knobs: Make, odd_command: Make
) -> None:
    async def scenario() -> None:
        async with supervise(knobs=knobs(prep_command=odd_command("prep-fails"))) as world:
            waiting = asyncio.ensure_future(kind_of(world.supervisor.prep.render(chat("a"))))
            snapshot = await world.supervisor.wait_first_outcome()
            assert snapshot.availability is Availability.FAILED
            assert snapshot.reason == "the folder has no tokenizer"
            assert snapshot.cause is FaultKind.BAD_CONFIGURATION
            await world.until(lambda: world.snapshot.workers[0].pid is None)
            assert await waiting is ProblemKind.MODEL_FAILED
            later = await kind_of(world.supervisor.prep.render(chat("a")))
            assert later is ProblemKind.MODEL_FAILED

    run(scenario)


def test_prep_that_dies_in_every_start_fails_the_model(
    supervise: Supervise, knobs: Make, odd_command: Make
) -> None:
    async def scenario() -> None:
        async with supervise(knobs=knobs(prep_command=odd_command("prep-dies"))) as world:
            snapshot = await world.supervisor.wait_first_outcome()
            assert snapshot.availability is Availability.FAILED
            assert "the prep process left with exit code 1" in snapshot.reason

    run(scenario)


def test_prep_jobs_of_a_stopping_model_end_with_draining(supervise: Supervise) -> None:
    async def scenario() -> None:
        async with supervise() as world:
            prep = world.supervisor.prep
            await prep.render(chat("a"))
            hanging = asyncio.ensure_future(kind_of(prep.render(chat("HANG"))))
            await asyncio.sleep(0)
            await world.supervisor.stop(0.4)
            assert await hanging is ProblemKind.DRAINING
            assert await kind_of(prep.render(chat("a"))) is ProblemKind.DRAINING

    run(scenario)
