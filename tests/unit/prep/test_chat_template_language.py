"""What templates of the field use, rendered as the reference environment renders it."""

import re
from typing import Any

import pytest

from refloat.prep.sources import TemplateSource
from refloat.prep.template import ChatTemplate, Rendering


def render(text: str, messages: list[dict[str, Any]] | None = None, **variables: Any) -> str:
    template = ChatTemplate(TemplateSource("test", text), {"bos_token": "<s>"}, limit_s=5.0)
    return template.render(Rendering(messages or [{"role": "user", "content": "Hi"}]), variables)


@pytest.mark.case(93)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ {'a': '<é & \"q\">'} | tojson }}", '{"a": "<é & \\"q\\">"}'),
        ("{{ {'b': 1, 'a': [1, none, true]} | tojson(indent=2) }}",
         '{\n  "b": 1,\n  "a": [\n    1,\n    null,\n    true\n  ]\n}'),
        ("{{ {'b': 1, 'a': 2} | tojson(separators=(',', ':'), sort_keys=true) }}", '{"a":2,"b":1}'),
        ("{{ 'é' | tojson(ensure_ascii=true) }}", '"\\u00e9"'),
        ("{% for k, v in {'a': 1, 'b': 2} | items %}{{ k }}{{ v }}{% endfor %}", "a1b2"),
        ("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "a1"),
        ("{{ [1, 2, 3][::-1] }}{{ 'abc'[1:] }}{{ [1, 2, 3][:2] | length }}", "[3, 2, 1]bc2"),
        ("{% set s = namespace(n=0) %}{% for x in '12' %}{% set s.n = s.n + 1 %}{% endfor %}{{ s.n }}",
         "2"),
        ("{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }}", "1-2"),
        ("{% for x in [1, 1, 2] %}{{ x }}{{ loop.previtem }};{% endfor %}", "1;11;21;"),
        ("{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "13"),
        ("{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "1"),
        ("{% generation %}said{% endgeneration %}!", "said!"),
        ("{% if 'a' in 'abc' and 'x' not in ['y'] %}yes{% endif %}", "yes"),
        ("{{ '  a '.strip() }}{{ 'a,b'.split(',')[-1] }}{{ 'x'.startswith('x') }}", "abTrue"),
        ("{{ bos_token }}{{ missing }}{{ missing is defined }}", "<s>False"),
        ("{{ (none or {}) | length }}{{ [3, 1] | sort | join(' ') }}", "01 3"),
        ("{% filter upper %}a{% endfilter %}{{ 'Ab' | lower | trim }}", "Aab"),
        ("{{ [{'r': 'a'}, {'r': 'b'}] | selectattr('r', 'equalto', 'b') | map(attribute='r') | list }}",
         "['b']"),
        ("{{ 'a' ~ 1 }}{{ 'ab' * 2 }}{{ 2 ** 3 }}{{ '-%s-' % 'x' }}", "a1abab8-x-"),
        ("{{ x.y if x is mapping else 'no' }}", "no"),
        ("{%- if true %}\n  line\n  {%- endif %}\nend", "  lineend"),
    ],
)  # fmt: skip
def test_template_construct_renders_as_the_reference_does(text: str, expected: str) -> None:
    assert render(text) == expected


def test_template_asking_for_the_date_gets_today() -> None:
    assert re.fullmatch(r"\d{1,2} [A-Z]\w+ \d{4}", render("{{ strftime_now('%-d %B %Y') }}"))


def test_template_gets_the_callers_own_variables() -> None:
    assert render("{{ enable_thinking }}", enable_thinking=False) == "False"


def test_template_keeps_text_of_messages_as_it_is() -> None:
    content = "<b>{{ 7 * 7 }}</b> & {% raw %} 'é' 😀\r\n\t\u2028"
    messages = [{"role": "user", "content": content}]
    assert render("{{ messages[0].content }}", messages) == content


def test_template_for_tools_is_used_with_tools_only() -> None:
    source = TemplateSource("test", "plain", "tools: {{ tools | length }}")
    template = ChatTemplate(source, {}, limit_s=5.0)
    messages = [{"role": "user", "content": "Hi"}]
    assert template.render(Rendering(messages)) == "plain"
    assert template.render(Rendering(messages, [{"type": "function"}])) == "tools: 1"
