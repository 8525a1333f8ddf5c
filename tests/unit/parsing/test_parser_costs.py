"""What the benchmark of parsers measures is what it says: calls, reasoning, text."""

from typing import Any

import pytest

from refloat.bench.parsers import Sample, cost_us, samples
from refloat.parsing.answer import Format
from refloat.parsing.declared import DeclaredTools
from refloat.parsing.vocabulary import Vocabulary

SAMPLES = samples()


@pytest.mark.parametrize("sample", SAMPLES, ids=[sample.name for sample in SAMPLES])
def test_sample_is_parsed_as_what_it_is_called(bench: Any, sample: Sample) -> None:
    vocabulary = Vocabulary(b"", [0], frozenset(), strip_leading_space=False, exact=True)
    tools = DeclaredTools([{"function": {"name": "write"}}])
    parser = Format(sample.tools, sample.reasoning).parser(tools, vocabulary)
    assert parser is not None
    found = bench.fold([*parser.push(sample.text), *parser.finish(cut=False)])
    assert (len(found.calls) == 1) == sample.name.startswith("arguments")
    assert bool(found.reasoning) == (sample.name == "reasoning")
    assert len(found.content) < 10 or sample.name == "text beside tools"


def test_cost_is_a_number_of_microseconds() -> None:
    assert cost_us(Sample("short", "hermes", None, "word " * 20)) > 0
