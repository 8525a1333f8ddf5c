"""The operator's handbook has a section for every cause, and a meaning for every file of evidence."""

import re
from pathlib import Path

import refloat.supervisor.evidence as evidence
import refloat.supervisor.incident_log as incident_log
import refloat.supervisor.incident_writer as incident_writer
from refloat.wire.faults import FaultKind

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "OPERATIONS.md").read_text()


def test_every_cause_has_a_section() -> None:
    assert re.findall(r"^### `(\w+)`$", TEXT, re.MULTILINE) == [kind.value for kind in FaultKind]


def test_every_file_of_evidence_is_explained() -> None:
    modules = (evidence, incident_log, incident_writer)
    sources = "".join(Path(module.__file__).read_text() for module in modules if module.__file__)
    names = set(re.findall(r'"([\w-]+\.(?:txt|log|json|bin))"', sources))
    assert len(names) > 5
    rows = set(re.findall(r"`([\w-]+\.\w+)`", TEXT))
    assert names <= rows


def test_every_action_is_named_in_the_schema() -> None:
    outage = (ROOT / "refloat" / "supervisor" / "outage.py").read_text()
    log = (ROOT / "refloat" / "supervisor" / "incident_log.py").read_text()
    named = set(re.findall(r'\.act\(\s*"([\w-]+)"', outage + log))
    named |= set(
        re.findall(r': "(\w+)"[,}]', log[log.index("_WAYS") : log.index("_KERNEL_BEFORE")])
    )
    table = TEXT[TEXT.index("<!-- generated: incident-actions -->") :]
    for name in named:
        assert f"`{name}`" in table[: table.index("<!-- end -->")]
    assert len(named) >= 9
