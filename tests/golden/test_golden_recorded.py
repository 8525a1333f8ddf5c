"""Real templates × chats against what `transformers` made of them when that was last compared
(`test_golden_reference.py`, which also records it)."""

import json
from pathlib import Path

import pytest

from tests.golden.conversations import CHATS
from tests.golden.rendering import REFUSED, Ours, digest, fix_the_day, refuses_effort
from tests.golden.templates import NUMBER, real_templates

RECORD = Path(__file__).parents[1] / "data" / "golden_renderings.json"


@pytest.mark.fetches
@pytest.mark.timeout(400)
def test_real_templates_render_as_the_reference_did(
    shared_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: dict[str, str] = json.loads(RECORD.read_text())
    assert len(recorded) == NUMBER
    fix_the_day(monkeypatch)
    wrong: dict[str, list[str]] = {}
    for name, text in real_templates(shared_home).items():
        ours = Ours(text)
        for (chat_name, chat), expected in zip(CHATS.items(), recorded[name].split(), strict=True):
            rendered = ours.render(chat)
            seen = REFUSED if rendered is None else digest(rendered)
            if seen != (REFUSED if refuses_effort(text, chat) else expected):
                wrong.setdefault(name, []).append(chat_name)
    assert wrong == {}
