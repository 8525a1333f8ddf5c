"""The OpenVINO engine behind its contract, on tiny real models, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from refloat.engines.base import EngineRequest, LoadError, RequestKey, RequestRefusedError
from refloat.testing.exact import EXACT_PROPERTIES
from refloat.wire.messages import EngineSpec, Output, SamplingParams
from refloat.wire.problem import ProblemKind
from tests.late_import import late_import

if TYPE_CHECKING:
    import openvino_genai as genai

    from refloat.engines import openvino_cb
    from refloat.engines.openvino_cb import OpenVinoEngine
else:
    genai = late_import("openvino_genai")
    openvino_cb = late_import("refloat.engines.openvino_cb")

pytestmark = pytest.mark.engine

DATA = Path(__file__).parents[2] / "data"
PROMPT = list(range(10, 50))
MAX_STEPS = 2000


def load(model: str = "tiny-llm", **fields: Any) -> OpenVinoEngine:
    engine = openvino_cb.OpenVinoEngine()
    spec: dict[str, Any] = {"num_kv_blocks": 64, "properties": EXACT_PROPERTIES, **fields}
    engine.load(EngineSpec("openvino_cb", str(DATA / model), **spec))
    return engine


@pytest.fixture(scope="module")
def llm() -> OpenVinoEngine:
    return load()


class Requests:
    """Numbers requests, adds them and collects their outputs."""

    number = 0

    def __init__(self, engine: OpenVinoEngine) -> None:
        self.engine = engine

    def add(
        self, prompt: list[int], *, emitted: list[int] | None = None, **params: Any
    ) -> RequestKey:
        Requests.number += 1
        key = RequestKey(Requests.number, 1)
        emitted = emitted or []
        settings: dict[str, Any] = {"max_tokens": 20, "temperature": 0.0, **params}
        request = EngineRequest(key, prompt + emitted, len(emitted), SamplingParams(**settings))
        self.engine.add(request)
        return key

    def run(self) -> dict[RequestKey, list[Output]]:
        outputs: dict[RequestKey, list[Output]] = {}
        for _ in range(MAX_STEPS):
            if not self.engine.has_work():
                return outputs
            for output in self.engine.step().outputs:
                outputs.setdefault(RequestKey(output.generation, output.attempt), []).append(output)
        raise AssertionError("it never ended")

    def answer(self, prompt: list[int], **params: Any) -> tuple[list[int], str | None]:
        key = self.add(prompt, **params)
        outputs = self.run()[key]
        assert [output.ended for output in outputs[:-1]] == [None] * (len(outputs) - 1)
        return ids_of(outputs), outputs[-1].ended


def ids_of(outputs: list[Output]) -> list[int]:
    return [token for output in outputs for token in output.ids]


@pytest.fixture
def requests(llm: OpenVinoEngine) -> Requests:
    return Requests(llm)


def test_greedy_answer_is_the_same_each_time_and_ends_with_length(requests: Requests) -> None:
    first, second = requests.answer(PROMPT), requests.answer(PROMPT)
    assert first == second
    assert len(first[0]) == 20
    assert first[1] == "length"


def test_stop_id_ends_the_answer_and_is_part_of_it(requests: Requests) -> None:
    whole, _ = requests.answer(PROMPT)
    ids, ended = requests.answer(PROMPT, stop_token_ids=(whole[5],))
    assert (ids, ended) == (whole[: whole.index(whole[5]) + 1], "stop")


def test_model_own_eos_does_not_end_an_answer_that_names_other_stop_ids() -> None:
    tokenizer = genai.Tokenizer(str(DATA / "tiny-scripted"))
    text = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    encoded: Any = tokenizer.encode(text)  # pyright: ignore[reportUnknownMemberType]
    prompt = [int(token) for token in encoded.input_ids.data[0]]
    eos = int(tokenizer.get_eos_token_id())
    requests = Requests(load("tiny-scripted"))
    assert requests.answer(prompt, max_tokens=60, stop_token_ids=(eos,))[1] == "stop"
    for stop_ids in ((), (3,)):
        ids, ended = requests.answer(prompt, max_tokens=60, stop_token_ids=stop_ids)
        assert eos in ids[:-1]
        assert ended == "length"


def test_min_tokens_keeps_a_stop_id_away(requests: Requests) -> None:
    whole, _ = requests.answer(PROMPT)
    ids, _ = requests.answer(PROMPT, stop_token_ids=(whole[2],), min_tokens=10)
    assert len(ids) > 10
    assert whole[2] not in ids[:10]


def test_two_together_answer_as_alone(requests: Requests) -> None:
    alone = [requests.answer(PROMPT)[0], requests.answer(PROMPT[::-1])[0]]
    keys = [requests.add(PROMPT), requests.add(PROMPT[::-1])]
    outputs = requests.run()
    assert [ids_of(outputs[key]) for key in keys] == alone


def test_cancel_of_one_leaves_the_other_alone(requests: Requests) -> None:
    expected, _ = requests.answer(PROMPT[::-1], max_tokens=40)
    cancelled = requests.add(PROMPT, max_tokens=40)
    other = requests.add(PROMPT[::-1], max_tokens=40)
    requests.engine.step()
    requests.engine.cancel(cancelled)
    outputs = requests.run()
    assert outputs[cancelled][-1].ended == "cancelled"
    assert ids_of(outputs[other])[-38:] == expected[-38:]
    assert outputs[other][-1].ended == "length"


def test_cancel_alone_before_and_after_its_first_step_ends_cancelled(requests: Requests) -> None:
    for steps in (0, 1, 3):
        key = requests.add(PROMPT, max_tokens=40)
        for _ in range(steps):
            requests.engine.step()
        requests.engine.cancel(key)
        requests.engine.cancel(key)
        assert requests.engine.has_work()
        (output,) = requests.run()[key]
        assert (output.ids, output.ended, output.offset) == ((), "cancelled", steps)
    assert requests.answer(PROMPT)[1] == "length"


def test_resume_at_every_cut_is_token_identical_under_the_exact_profile(
    requests: Requests,
) -> None:
    whole, _ = requests.answer(PROMPT)
    for cut in range(1, 20):
        rest, ended = requests.answer(PROMPT, emitted=whole[:cut])
        assert whole[:cut] + rest == whole, cut
        assert ended == "length"


def test_sampled_answers_follow_their_seed(requests: Requests) -> None:
    def sample(seed: int) -> list[int]:
        return requests.answer(PROMPT, temperature=1.0, seed=seed)[0]

    assert sample(1) == sample(1)
    assert len({tuple(sample(seed)) for seed in range(4)}) > 1


def test_logprobs_come_one_for_each_id_and_only_if_asked_for(requests: Requests) -> None:
    key, plain = requests.add(PROMPT, logprobs=True), requests.add(PROMPT)
    outputs = requests.run()
    assert all(o.logprobs is not None and len(o.logprobs) == len(o.ids) for o in outputs[key])
    assert all(value <= 0 for o in outputs[key] for value in o.logprobs or ())
    assert all(o.logprobs is None for o in outputs[plain])


@pytest.mark.parametrize(
    ("prompt", "params", "word"),
    [
        ([], {}, "empty"),
        ([5, 99_999], {}, "vocabulary"),
        ([-1], {}, "vocabulary"),
        (PROMPT, {"temperature": 1.0, "top_p": 2.0}, "top_p"),
        (PROMPT, {"temperature": 1.0, "min_p": 1.0}, "min_p"),
        (PROMPT, {"repetition_penalty": 0.0}, "repetition_penalty"),
        (PROMPT, {"frequency_penalty": 9.0}, "frequence_penalty"),
        (PROMPT, {"max_tokens": 0}, "max_tokens"),
    ],
)
def test_bad_request_is_refused_and_its_neighbour_ends_well(
    requests: Requests, prompt: list[int], params: dict[str, Any], word: str
) -> None:
    neighbour = requests.add(PROMPT)
    requests.engine.step()
    with pytest.raises(RequestRefusedError) as refused:
        requests.add(prompt, **params)
    problem = refused.value.problem
    assert problem.kind is ProblemKind.INVALID_REQUEST
    assert word in problem.message
    assert "/" not in problem.message
    assert ".cpp" not in problem.message
    assert requests.run()[neighbour][-1].ended == "length"


def test_resume_with_nothing_left_is_refused(requests: Requests) -> None:
    with pytest.raises(RequestRefusedError):
        requests.add(PROMPT, emitted=[1, 2], max_tokens=2)


def test_stop_id_beyond_the_vocabulary_is_harmless(requests: Requests) -> None:
    ids, ended = requests.answer(PROMPT, stop_token_ids=(10_000_000,), min_tokens=3)
    assert (len(ids), ended) == (20, "length")


def test_long_prompt_is_prefilled_in_several_steps() -> None:
    engine = load(max_num_batched_tokens=64)
    requests = Requests(engine)
    requests.add([7 + n % 500 for n in range(400)], max_tokens=2)
    assert [len(engine.step().outputs) for _ in range(7)] == [0, 0, 0, 0, 0, 0, 1]


def test_cache_facts_are_exact_after_the_first_step() -> None:
    engine = load(properties={})
    facts = engine.cache()
    assert facts is not None
    assert (facts.num_blocks, facts.block_size, facts.bytes_total) == (64, 32, 0)
    used = [engine.step().used_blocks for _ in range(1) if Requests(engine).add(PROMPT)]
    facts = engine.cache()
    assert facts is not None
    assert facts.bytes_total > 0
    assert facts.bytes_total % 64 == 0
    assert used == [2]


def test_cache_without_a_size_is_bounded_by_what_all_seats_can_fill() -> None:
    facts = load(num_kv_blocks=None, context_length=4096, max_num_seqs=2).cache()
    assert facts is not None
    assert facts.num_blocks == 2 * 4096 // 32


def test_cache_from_bytes_takes_no_more_than_them() -> None:
    size = 4 << 20
    engine = load(num_kv_blocks=None, cache_size_bytes=size)
    Requests(engine).answer(PROMPT)
    facts = engine.cache()
    assert facts is not None
    assert size * 0.6 < facts.bytes_total <= size


def test_cache_given_to_its_last_block_ends_every_answer_well() -> None:
    engine = load(num_kv_blocks=6)
    requests = Requests(engine)
    keys = [requests.add(PROMPT, max_tokens=96 - len(PROMPT)) for _ in range(2)]
    outputs = requests.run()
    assert [outputs[key][-1].ended for key in keys] == ["length", "length"]


def test_sequence_that_cannot_go_on_is_reported_ignored() -> None:
    requests = Requests(load(num_kv_blocks=2))
    ids, ended = requests.answer(PROMPT, max_tokens=200)
    assert ended == "ignored"
    assert 0 < len(ids) < 200


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"device": "FPGA"}, "FPGA"),
        ({"properties": {"NO_SUCH": "1"}}, "NO_SUCH"),
        ({"properties": {"KV_CACHE_PRECISION": "zzz"}}, "KV_CACHE_PRECISION"),
        ({"cache_size_bytes": 16, "num_kv_blocks": None}, "one KV block"),
    ],
)
def test_load_that_never_works_is_permanent(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(LoadError) as failed:
        load(**fields)
    assert failed.value.permanent
    assert word in str(failed.value)
    assert "Exception from" not in str(failed.value)


def test_load_of_a_missing_folder_is_permanent() -> None:
    with pytest.raises(LoadError) as failed:
        load("no-such-model")
    assert failed.value.permanent


def test_load_with_more_cache_than_memory_says_so() -> None:
    with pytest.raises(LoadError) as failed:
        load(num_kv_blocks=10**9)
    assert failed.value.out_of_memory


LONG = [60 + (number * 7) % 300 for number in range(300)]


@pytest.mark.parametrize("steps", [1, 2])
def test_cancel_in_the_midst_of_a_prompt_spoils_no_repeat(llm: OpenVinoEngine, steps: int) -> None:
    expected, _ = Requests(llm).answer(LONG, max_tokens=8)
    requests = Requests(load(max_num_batched_tokens=64))
    for token in range(5):  # so that chunks do not end where blocks do
        requests.add([500 + token], max_tokens=60)
    requests.engine.step()
    key = requests.add(LONG, max_tokens=8)
    for _ in range(steps):
        requests.engine.step()
    requests.engine.cancel(key)
    again = requests.add(LONG, max_tokens=8)
    outputs = requests.run()
    assert [output.ended for output in outputs[key]] == ["cancelled"]
    assert ids_of(outputs[again]) == expected


def test_prompt_that_comes_again_while_the_first_is_computed_is_answered_alike(
    llm: OpenVinoEngine,
) -> None:
    expected, _ = Requests(llm).answer(LONG, max_tokens=8)
    requests = Requests(load(max_num_batched_tokens=64))
    for token in range(5):
        requests.add([500 + token], max_tokens=60)
    keys: list[RequestKey] = []
    for _ in range(4):
        keys.append(requests.add(LONG, max_tokens=8))
        requests.engine.step()
    outputs = requests.run()
    assert [ids_of(outputs[key]) for key in keys] == [expected] * 4


# --- hybrid models ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hybrid() -> OpenVinoEngine:
    return load("tiny-hybrid", max_num_seqs=8)


def test_hybrid_is_known_as_one(hybrid: OpenVinoEngine) -> None:
    assert hybrid.capabilities.hybrid
    assert hybrid.capabilities.capacity == 8


def test_hybrid_with_one_token_ends_rightly_and_spoils_no_repeat(
    hybrid: OpenVinoEngine,
) -> None:
    requests = Requests(hybrid)
    fresh, _ = requests.answer(PROMPT, max_tokens=1)
    assert len(fresh) == 1
    prompt = [300 + n for n in range(70)]
    expected, _ = Requests(load("tiny-hybrid")).answer(prompt, max_tokens=8)
    ids, ended = requests.answer(prompt, max_tokens=1)
    assert (ids, ended) == (expected[:1], "length")
    assert requests.answer(prompt, max_tokens=8)[0] == expected


def test_hybrid_stopping_at_its_first_token_spoils_no_repeat(
    hybrid: OpenVinoEngine,
) -> None:
    prompt = [500 + n for n in range(70)]
    expected, _ = Requests(load("tiny-hybrid")).answer(prompt, max_tokens=8)
    requests = Requests(hybrid)
    ids, ended = requests.answer(prompt, max_tokens=8, stop_token_ids=(expected[0],))
    assert (ids, ended) == (expected[:1], "stop")
    assert requests.answer(prompt, max_tokens=8)[0] == expected


def test_hybrid_cancelled_after_its_first_token_spoils_no_repeat(
    hybrid: OpenVinoEngine,
) -> None:
    prompt = [700 + n for n in range(70)]
    expected, _ = Requests(load("tiny-hybrid")).answer(prompt, max_tokens=8)
    requests = Requests(hybrid)
    key = requests.add(prompt, max_tokens=8)
    hybrid.step()
    hybrid.cancel(key)
    (output,) = requests.run()[key]
    assert output.ended == "cancelled"
    assert requests.answer(prompt, max_tokens=8)[0] == expected


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_hybrid_prompt_that_comes_again_while_the_first_runs_is_answered_rightly(
    hybrid: OpenVinoEngine, steps: int
) -> None:
    prompt = [900 + 50 * steps + n for n in range(40)]
    expected, _ = Requests(load("tiny-hybrid")).answer(prompt, max_tokens=8)
    requests = Requests(hybrid)
    requests.add(prompt, max_tokens=30)
    for _ in range(steps):
        hybrid.step()
    again = [requests.add(prompt, max_tokens=8) for _ in range(2)]
    outputs = requests.run()
    assert [ids_of(outputs[key]) for key in again] == [expected, expected]


def test_hybrid_request_cancelled_before_the_engine_has_it_ends_once(
    hybrid: OpenVinoEngine,
) -> None:
    prompt = [1200 + n for n in range(40)]
    requests = Requests(hybrid)
    first = requests.add(prompt, max_tokens=8)
    hybrid.step()
    again = requests.add(prompt, max_tokens=8)
    hybrid.cancel(again)
    outputs = requests.run()
    assert [(output.ids, output.ended) for output in outputs[again]] == [((), "cancelled")]
    assert outputs[first][-1].ended == "length"


def test_hybrid_stops_at_a_later_stop_id(hybrid: OpenVinoEngine) -> None:
    requests = Requests(hybrid)
    whole, _ = requests.answer(PROMPT)
    ids, ended = requests.answer(PROMPT, stop_token_ids=(whole[6],))
    assert (ids, ended) == (whole[: whole.index(whole[6]) + 1], "stop")


def test_hybrid_full_house_of_long_answers_ends_well(hybrid: OpenVinoEngine) -> None:
    requests = Requests(hybrid)
    keys = [requests.add(PROMPT, max_tokens=200) for _ in range(8)]
    outputs = requests.run()
    assert [outputs[key][-1].ended for key in keys] == ["length"] * 8
