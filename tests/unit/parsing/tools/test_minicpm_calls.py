"""MiniCPM: XML with CDATA."""

from typing import Any


def test_cdata_keeps_everything_and_bare_values_are_typed(bench: Any) -> None:
    text = (
        '<function name="write_file"><param name="content"><![CDATA[<a>\n</param>]]></param>'
        '<param name="overwrite">True</param><param name="lines">[1, 2]</param></function>'
    )
    found = bench.parse_anyhow(bench.family("minicpm"), text)
    expected = {"content": "<a>\n</param>", "overwrite": True, "lines": [1, 2]}
    assert found.values == [("write_file", expected)]


def test_parameter_tags_of_another_spelling_are_never_part_of_a_value(bench: Any) -> None:
    text = '<function name="write_file"><param name="path">a<param name="content">b</function>'
    found = bench.parse_anyhow(bench.family("minicpm"), text)
    assert found.values == [("write_file", {"path": "a", "content": "b"})]
