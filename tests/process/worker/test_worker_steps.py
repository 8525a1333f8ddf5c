"""Requests through a worker: outputs, ends, cancels, refusals, and going on elsewhere."""

from typing import Any

import pytest

from refloat.scripted.tokens import ScriptedTokenizer
from refloat.wire.messages import ENDED_PREEMPTED, Output, Probe, Probed, Refused, Step, pack_ids
from refloat.wire.problem import ProblemKind
from refloat.wire.progress import Phase
from tests.process.worker.conftest import Driver, StartWorker, ids_of

pytestmark = pytest.mark.process


def test_add_runs_to_its_stop_and_ends_once(worker: Driver, tokens: ScriptedTokenizer) -> None:
    worker.load()
    worker.add(7, tokens.encode("Repeat: grüße"), stop_token_ids=tokens.eos_ids)
    outputs = worker.until_ended(7)[7]
    assert tokens.decode(ids_of(outputs)) == "grüße<|im_end|>"
    assert [output.ended for output in outputs if output.ended] == ["stop"]
    assert [output.offset for output in outputs] == list(range(len(outputs)))


def test_add_reaching_its_limit_ends_with_length(worker: Driver, tokens: ScriptedTokenizer) -> None:
    worker.load()
    worker.add(1, tokens.encode("Repeat: abcdef"), max_tokens=3, stop_token_ids=tokens.eos_ids)
    outputs = worker.until_ended(1)[1]
    assert tokens.decode(ids_of(outputs)) == "abc"
    assert outputs[-1].ended == "length"


def test_add_with_min_tokens_does_not_stop_before(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    worker.load()
    worker.add(1, tokens.encode("Repeat: ab"), min_tokens=5, stop_token_ids=tokens.eos_ids)
    outputs = worker.until_ended(1)[1]
    assert len(ids_of(outputs)) > 5
    assert outputs[-1].ended == "stop"


def test_add_with_logprobs_gets_one_for_each_id(worker: Driver, tokens: ScriptedTokenizer) -> None:
    worker.load()
    worker.add(1, tokens.encode("Repeat: ab"), max_tokens=3, logprobs=True)
    worker.add(2, tokens.encode("Repeat: ab"), max_tokens=3)
    outputs = worker.until_ended(1, 2)
    assert all(o.logprobs is not None and len(o.logprobs) == len(o.ids) for o in outputs[1])
    assert all(o.logprobs is None for o in outputs[2])


def test_adds_together_come_in_one_frame_a_step(worker: Driver, tokens: ScriptedTokenizer) -> None:
    worker.load(options={"step_s": 0.01})
    for generation in range(1, 9):
        worker.add(generation, tokens.encode("Repeat: abcdefgh"), max_tokens=8)
    together = 0
    left = set(range(1, 9))
    numbers: list[int] = []
    while left:
        step = worker.expect(Step)
        numbers.append(step.number)
        together = max(together, len(step.outputs))
        left -= {output.generation for output in step.outputs if output.ended}
    assert together == 8
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_long_prompt_takes_several_steps_and_its_neighbour_speaks_meanwhile(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    worker.load(max_num_batched_tokens=64, options={"step_s": 0.002})
    worker.add(1, tokens.encode("Count from 1 to 500"), max_tokens=200)
    worker.expect(Step)
    worker.add(2, tokens.encode("x" * 1000), max_tokens=1)
    spoken = 0
    while True:
        step = worker.expect(Step)
        spoken += sum(output.generation == 1 for output in step.outputs)
        if any(output.generation == 2 for output in step.outputs):
            break
    assert spoken >= 1000 // 64


def test_cancel_of_a_running_one_ends_it_cancelled_and_harms_no_neighbour(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    worker.load(options={"step_s": 0.002})
    worker.add(1, tokens.encode("Count from 1 to 1000"), max_tokens=3000)
    worker.add(2, tokens.encode("Repeat: neighbour"), stop_token_ids=tokens.eos_ids)
    worker.expect(Step)
    worker.cancel(1)
    outputs = worker.until_ended(1, 2)
    assert outputs[1][-1].ended == "cancelled"
    assert outputs[2][-1].ended == "stop"


def test_cancel_with_nothing_else_running_still_ends_it(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    worker.load(options={"step_s": 0.002})
    worker.add(1, tokens.encode("Count from 1 to 1000"), max_tokens=3000)
    worker.expect(Step)
    worker.cancel(1)
    assert worker.until_ended(1)[1][-1].ended == "cancelled"
    worker.add(2, tokens.encode("Repeat: on"), stop_token_ids=tokens.eos_ids)
    assert worker.until_ended(2)[2][-1].ended == "stop"


def test_cancel_twice_or_of_the_unknown_does_nothing(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    worker.load(options={"step_s": 0.002})
    worker.cancel(99)
    worker.add(1, tokens.encode("Count from 1 to 1000"), max_tokens=3000)
    worker.cancel(1)
    worker.cancel(1)
    worker.cancel(1, attempt=2)
    ends = [output for output in worker.until_ended(1)[1] if output.ended]
    assert len(ends) == 1
    worker.cancel(1)
    worker.add(2, tokens.encode("Repeat: ab"), stop_token_ids=tokens.eos_ids)
    assert set(worker.until_ended(2)) == {2}


def test_youngest_is_given_back_before_the_cache_is_full_and_goes_on_later(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    worker.load(num_kv_blocks=10, options={"step_s": 0.001})  # 160 tokens
    prompt = tokens.encode("Count from 1 to 50")
    for generation in (1, 2):
        worker.add(generation, prompt, max_tokens=100)
    outputs = worker.until_ended(1, 2)
    assert outputs[1][-1].ended == "length"
    assert outputs[2][-1].ended == ENDED_PREEMPTED
    stopped = ids_of(outputs[2])
    assert 40 < len(stopped) < 100
    worker.add(2, prompt, emitted=stopped, attempt=2, max_tokens=100)
    assert stopped + ids_of(worker.until_ended(2)[2]) == ids_of(outputs[1])


def test_add_for_which_there_is_no_room_comes_back_and_one_that_never_fits_is_refused(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    worker.load(num_kv_blocks=10, options={"step_s": 0.001})
    prompt = tokens.encode("Repeat: " + "x" * 130)
    for generation in (1, 2):
        worker.add(generation, prompt, max_tokens=10)
    worker.add(3, prompt, max_tokens=60)
    refused = worker.refusal()
    assert (refused.generation, refused.problem.kind) == (3, ProblemKind.OVERLOADED)
    outputs = worker.until_ended(1)
    assert outputs[1][-1].ended == "length"
    assert outputs[2] == [Output(2, 1, 0, (), None, ENDED_PREEMPTED)]


def test_cache_filled_to_the_last_block_again_and_again_never_runs_out(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    worker.load(num_kv_blocks=8, options={"step_s": 0.001})
    prompt = tokens.encode("Count from 1 to 99")
    for generation in range(1, 12, 2):
        worker.add(generation, prompt, max_tokens=64 - len(prompt))
        worker.add(generation + 1, prompt, max_tokens=64 - len(prompt))
        if generation % 4 == 1:
            worker.cancel(generation)
        worker.until_ended(generation, generation + 1)


def test_cancelled_blocks_are_free_after_its_end_was_reported(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    worker.load(num_kv_blocks=8, options={"step_s": 0.001})
    worker.add(1, tokens.encode("Count from 1 to 99"), max_tokens=100)
    worker.expect(Step)
    worker.cancel(1)
    worker.until_ended(1)
    worker.add(2, tokens.encode("Count from 1 to 99"), max_tokens=100)
    assert worker.until_ended(2)[2][-1].ended == "length"


@pytest.mark.parametrize("prompt", [[], [5000], [-1]])
def test_add_the_engine_would_not_take_is_refused_alone(
    worker: Driver, tokens: ScriptedTokenizer, prompt: list[int]
) -> None:
    worker.load(options={"step_s": 0.001})
    worker.add(1, tokens.encode("Repeat: neighbour"), stop_token_ids=tokens.eos_ids)
    worker.add(2, prompt)
    assert worker.refusal().problem.kind is ProblemKind.INVALID_REQUEST
    assert worker.until_ended(1)[1][-1].ended == "stop"


def test_add_with_nothing_left_is_refused(worker: Driver, tokens: ScriptedTokenizer) -> None:
    worker.load()
    worker.add(1, tokens.encode("Repeat: abc"), emitted=[97, 98], max_tokens=2)
    assert worker.expect(Refused).problem.kind is ProblemKind.INVALID_REQUEST


def test_add_of_the_same_attempt_twice_is_refused(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    worker.load(options={"step_s": 0.002})
    worker.add(1, tokens.encode("Repeat: abcdefgh"), max_tokens=8)
    worker.add(1, tokens.encode("Repeat: abcdefgh"), max_tokens=8)
    assert worker.refusal().problem.kind is ProblemKind.INTERNAL_ERROR
    assert worker.until_ended(1)[1][-1].ended == "length"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_resume_at_every_cut_equals_the_undisturbed_run(
    start_worker: StartWorker, tokens: ScriptedTokenizer, temperature: float
) -> None:
    prompt = tokens.encode(
        "<|im_start|>user\nRepeat: Zürich 🚲 ok<|im_end|>\n<|im_start|>assistant\n"
    )
    params: dict[str, Any] = {
        "stop_token_ids": tokens.eos_ids,
        "temperature": temperature,
        "seed": 3,
    }
    first, second = start_worker(), start_worker()
    first.load()
    first.add(1, prompt, **params)
    whole = ids_of(first.until_ended(1)[1])
    second.load()
    for cut in range(1, len(whole)):
        second.add(1, prompt, emitted=whole[:cut], attempt=cut, **params)
        outputs = second.until_ended(1)[1]
        assert outputs[0].offset == cut
        assert whole[:cut] + ids_of(outputs) == whole


def test_resume_goes_on_with_the_text_it_began_whatever_the_seed(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    worker.load()
    prompt = tokens.encode("Flip a coin")
    worker.add(1, prompt, seed=1, temperature=1.0, stop_token_ids=tokens.eos_ids)
    whole = ids_of(worker.until_ended(1)[1])
    worker.add(
        1, prompt, emitted=whole[:1], attempt=2, seed=0, temperature=1.0,
        stop_token_ids=tokens.eos_ids,
    )  # fmt: skip
    assert whole[:1] + ids_of(worker.until_ended(1)[1]) == whole


def test_probe_among_requests_ends_the_worker(worker: Driver, tokens: ScriptedTokenizer) -> None:
    worker.load(options={"step_s": 0.002})
    worker.add(1, tokens.encode("Count from 1 to 1000"), max_tokens=3000)
    worker.expect(Step)
    worker.send(Probe(pack_ids([1]), 1))
    assert worker.wait() == 72


def test_requests_after_a_probe_run(worker: Driver, tokens: ScriptedTokenizer) -> None:
    worker.load()
    worker.probe()
    worker.expect(Probed)
    worker.add(1, tokens.encode("Hi"), stop_token_ids=tokens.eos_ids)
    assert tokens.decode(ids_of(worker.until_ended(1)[1])).startswith("Hello! How can I help")


def test_progress_page_names_the_batch_of_a_long_step(
    worker: Driver, tokens: ScriptedTokenizer
) -> None:
    worker.load(faults=({"at": "step", "kind": "hang"},))
    worker.add(41, tokens.encode("Hi"))
    worker.receive()  # the fault is announced; the step never returns
    page = worker.progress.read()
    assert page is not None
    assert (page.phase, page.generations, page.step) == (Phase.STEPPING, (41,), 1)
    assert page.tokens >= 2
