"""Real templates × chats against `transformers` itself. `GOLDEN_RECORD=1` rewrites the record."""

import json
import os
from pathlib import Path

import pytest

from tests.golden.conversations import CHATS
from tests.golden.rendering import REFUSED, Ours, digest, fix_the_day, refuses_effort
from tests.golden.templates import real_templates
from tests.golden.test_golden_recorded import RECORD

pytestmark = pytest.mark.soak


def test_real_templates_render_as_transformers_does(
    shared_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.golden.reference import REFERENCE_MODULE, reference

    fix_the_day(monkeypatch, REFERENCE_MODULE)
    wrong: list[str] = []
    record: dict[str, str] = {}
    for name, text in real_templates(shared_home).items():
        ours = Ours(text)
        digests: list[str] = []
        for chat_name, chat in CHATS.items():
            expected = reference(name, text, chat)
            digests.append(REFUSED if expected is None else digest(expected))
            wanted = None if refuses_effort(text, chat) else expected
            if ours.render(chat) != wanted:
                wrong.append(f"{name}: {chat_name}")
        record[name] = " ".join(digests)
    if os.environ.get("GOLDEN_RECORD"):
        RECORD.write_text(json.dumps(record, indent=0) + "\n")
    assert wrong == []
    assert record == json.loads(RECORD.read_text()), "the record is of another version"
