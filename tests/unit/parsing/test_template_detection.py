"""Which family a chat template teaches, by the signs in it."""

import pytest

from refloat.parsing.detect import REASONING_SIGNS, TOOL_SIGNS, Sign, detect
from refloat.parsing.families import REASONING_FAMILIES, TOOL_FAMILIES
from refloat.scripted.tokens import CHAT_TEMPLATE


@pytest.mark.parametrize(
    ("template", "tools"),
    [
        ("<tool_call>{{ call | tojson }}</tool_call>", "hermes"),
        ("<tool_call>\\n<function={{ name }}>\\n<parameter={{ key }}></tool_call>", "qwen3_coder"),
        ("<tool_call>{{ name }}<arg_key>{{ k }}</arg_key><arg_value></tool_call>", "glm"),
        ("<seed:tool_call><function={{ name }}><parameter={{ key }}>", "seed_oss"),
        ("[TOOL_CALLS]{{ name }}[ARGS]", "mistral"),
        ("<|start|>assistant to=functions.x<|channel|>commentary<|message|>", "gpt_oss"),
        ("<|tool_call>call:{{ name }}", "gemma"),
        ("<|tool_call_begin|>x<|tool_call_argument_begin|>", "kimi_k2"),
        ("<｜tool▁call▁begin｜>function<｜tool▁sep｜>x\n```json", "deepseek_v3"),
        ("<｜tool▁call▁begin｜>x<｜tool▁sep｜>", "deepseek_v31"),
        ("<|tool_call|> followed by a JSON list of tools used", "granite"),
        ("List of tools: <|tool_list_start|>[", "lfm2"),
        ('<function name="x"><param name="y">', "minicpm"),
        ('{"name": function name, "parameters": dictionary', "llama3_json"),
        ("[func_name1(param1=value1, param2=value2), func_name2(...)]", "llama4_pythonic"),
        ("<|python_start|>{{ content }}<|python_end|>", "llama4_pythonic"),
        # Llama 4's own template: the marks are around what is said before a call in JSON.
        (
            '<|python_start|>{{ said }}<|python_end|> {"name": function name, "parameters": {}}',
            "llama3_json",
        ),
        (CHAT_TEMPLATE, "hermes"),
        ("{{ messages[0].content }}", None),
        # Formats of models that are not known here have to be told, not guessed at.
        ("<tool_call><invoke name={{ name }}></tool_call>", None),
        ("<tool_calls>[{{ calls }}]</tool_calls> or <tool_call></tool_call>", None),
        ("<TOOLCALL>[{{ calls }}]</TOOLCALL>", None),
        ("<|START_ACTION|>[{{ calls }}]<|END_ACTION|>", None),
    ],
)
def test_format_of_calls_is_recognised_by_its_marks(template: str, tools: str | None) -> None:
    assert detect(template).tools == tools


@pytest.mark.parametrize(
    ("template", "reasoning"),
    [
        ("{{ content.split('</think>')[-1] }}", "think"),
        ("<|channel|>analysis<|message|>", "gpt_oss"),
        ("<|channel>thought\n<channel|>", "gemma"),
        ("[THINK]{{ t }}[/THINK]", "mistral"),
        ("<|start_of_role|> between <think></think> and <response></response>", "granite"),
        ("</think><|tool_calls_section_begin|>", "kimi_k2"),
        ("{{ messages[0].content }}", None),
    ],
)
def test_format_of_reasoning_is_recognised_by_its_tags(
    template: str, reasoning: str | None
) -> None:
    assert detect(template).reasoning == reasoning


@pytest.mark.parametrize(
    ("signs", "families"),
    [(TOOL_SIGNS, TOOL_FAMILIES), (REASONING_SIGNS, REASONING_FAMILIES)],
    ids=["tools", "reasoning"],
)
def test_every_sign_names_a_family(signs: tuple[Sign, ...], families: dict[str, object]) -> None:
    assert {sign.family for sign in signs} <= set(families)
