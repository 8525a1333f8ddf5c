"""Calls as real models' chat templates write them are read back as those calls.

Which families are verified, docs/API.md says by this.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from refloat.parsing.answer import Format
from refloat.parsing.declared import DeclaredTools
from refloat.parsing.detect import detect
from refloat.parsing.vocabulary import Vocabulary
from refloat.prep.conversation import normalised
from refloat.prep.sources import TemplateSource
from refloat.prep.template import ChatTemplate, RenderError, Rendering
from refloat.prep.traits import find_traits
from tests.golden.templates import real_templates

ARGUMENTS = {
    "path": "/a b",
    "content": 'x <y> "q"\n\tz é',
    "overwrite": True,
    "lines": [1, 2],
    "options": {"a": {"b": None}},
    "ratio": 1.5,
}
#: The least number of templates of each family that write a call, and have it read back.
EXPECTED = {
    "hermes": 8,
    "qwen3_coder": 4,
    "seed_oss": 1,
    "llama3_json": 3,
    "mistral": 4,
    "gpt_oss": 1,
    "gemma": 2,
    "deepseek_v3": 1,
    "deepseek_v31": 1,
    "glm": 6,
    "kimi_k2": 1,
    "lfm2": 1,
    "minicpm": 1,
}

VOCABULARY = Vocabulary(b"", [0], frozenset(), strip_leading_space=False, exact=True)

pytestmark = [pytest.mark.timeout(400)]  # the first fetch takes long


@pytest.fixture(scope="module")
def templates(shared_home: Path) -> dict[str, str]:
    """Template texts by name."""
    return {Path(name).stem: text for name, text in real_templates(shared_home).items()}


def _written(template: str, tools: Any, calls: list[Any]) -> tuple[str, str] | None:
    """The end of the prompt and what the model is to have said; `None`: it writes no calls."""
    compiled = ChatTemplate(
        TemplateSource("test", template), {"bos_token": "", "eos_token": "<eos>"}, limit_s=5
    )
    traits = find_traits(compiled)
    made = [
        {
            "id": f"abcdefgh{number}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for number, (name, arguments) in enumerate(calls)
    ]
    asked = {"role": "user", "content": "hi"}
    told = {"role": "assistant", "content": None, "tool_calls": made}
    try:
        before = compiled.render(Rendering(normalised([asked], traits), tools))
        after = normalised([asked, told], traits)
        whole = compiled.render(Rendering(after, tools, add_generation_prompt=False))
    except RenderError:
        return None
    common = _shared_beginning(before, whole)
    answer = whole[len(common) :]
    return (common, answer) if "get_weather" in answer else None


def _shared_beginning(before: str, whole: str) -> str:
    """Some prompts open or close a block that the template leaves out of a finished turn: such a
    block begins with the same sign as what stands in its place."""
    pairs = zip(before, whole, strict=False)
    length = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(before), len(whole)))
    if length < len(before):
        sign = before.rfind("<", max(0, length - 8), length)
        length = length if sign < 0 else sign
    return before[:length]


def _found(bench: Any, form: Any, answer: str) -> Any:
    parser = Format(*form).parser(DeclaredTools(bench.tools), VOCABULARY, "")
    assert parser is not None
    return bench.fold([*parser.push(answer), *parser.finish(cut=False)])


@pytest.mark.soak
def test_llama_4_is_read_as_its_own_template_writes(bench: Any) -> None:
    """It comes with `transformers`, not with the others."""
    template = import_module("transformers.models.llama4.processing_llama4").chat_template
    form = detect(template)
    assert form.tools == "llama3_json"
    calls: list[Any] = [("get_weather", {"city": "Oslo"}), ("write_file", ARGUMENTS)]
    written = _written(template, [*bench.tools], calls)
    assert written is not None
    assert written[1].startswith("<|python_start|>")
    assert _found(bench, form, written[1].removesuffix("<|eot|>")).values == calls


@pytest.mark.parametrize("family", ["llama4_pythonic", "llama3_json"])
def test_llama_4_is_read_as_its_makers_document_it(bench: Any, family: str) -> None:
    """In `models/llama4/prompt_format.md` of their repository, whatever the prompt asked for."""
    answer = "[get_weather(city=\"San Francisco\"), get_weather(days=7890, city='black')]"
    found = _found(bench, (family, None), answer)
    assert found.content == ""
    assert found.values == [
        ("get_weather", {"city": "San Francisco"}),
        ("get_weather", {"days": 7890, "city": "black"}),
    ]
    assert _found(bench, (family, None), '{"name": "ping", "parameters": {}}').values == [
        ("ping", {})
    ]


@pytest.mark.fetches
@pytest.mark.soak
def test_calls_of_every_template_that_writes_them_are_read_back(
    bench: Any, templates: dict[str, str]
) -> None:
    tools = [{**tool, "function": {"description": "x", **tool["function"]}} for tool in bench.tools]
    right: dict[str, list[str]] = {}
    for name, template in templates.items():
        form = detect(template)
        if form.tools is None:
            continue
        calls: list[Any] = [("get_weather", {"city": "Oslo"}), ("write_file", ARGUMENTS)]
        written = _written(template, tools, calls)
        if written is None:
            calls = calls[:1]
            written = _written(template, tools, calls)
        if written is None:
            continue
        tail, answer = written
        parser = Format(*form).parser(DeclaredTools(tools), VOCABULARY, tail)
        assert parser is not None
        found = bench.fold([*parser.push(answer), *parser.finish(cut=False)])
        assert found.values == [call for call in calls if call[0] in answer], (name, answer)
        right.setdefault(form.tools, []).append(name)
    short = {
        family: right.get(family)
        for family, least in EXPECTED.items()
        if len(right.get(family, [])) < least
    }
    assert not short


@pytest.mark.fetches
def test_granite_3_is_read_as_its_template_asks_for_it(
    bench: Any, templates: dict[str, str]
) -> None:
    """It leaves calls out of the history, but says how they are to be written."""
    template = templates["ibm-granite-granite-3.3-2B-Instruct"]
    assert "respond only with <|tool_call|> followed by a JSON list" in template
    assert "between <think></think>" in template
    form = detect(template)
    assert form == ("granite", "granite")
    answers = {
        '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Oslo"}}]': [
            ("get_weather", {"city": "Oslo"})
        ],
        "<think>hm</think><response>Rain.</response>": [],
    }
    for answer, calls in answers.items():
        found = _found(bench, form, answer)
        assert found.values == calls
        assert (found.reasoning, found.content) == (("", "") if calls else ("hm", "Rain."))
