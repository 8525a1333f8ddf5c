"""The documents say what the code says: generated parts, fields, links, commands."""

import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer.main

from refloat.api.schema import checks
from refloat.api.schema.anthropic import MessagesBody
from refloat.api.schema.chat import MAX_TEMPLATE_KWARGS, REASONING_EFFORTS, ChatBody
from refloat.api.schema.completions import CompletionBody
from refloat.api.schema.messages import MAX_MESSAGES, ROLES, ChatMessage
from refloat.api.schema.responses import ResponsesBody
from refloat.api.schema.shared import GenerationBody
from refloat.api.schema.tokens import MAX_DETOKENIZE, DetokenizeBody, TokenizeBody
from refloat.api.schema.tools import MAX_TOOL_NAME_CHARS, MAX_TOOLS
from refloat.api.schema.unsupported import UNSUPPORTED
from refloat.cli.application import app

ROOT = Path(__file__).parents[2]
API = ROOT / "docs" / "API.md"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_ROW = re.compile(r"^\| `(?P<field>\w+)` \|.*$", re.MULTILINE)


def _generator() -> Any:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return importlib.import_module("docs_sections")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


GENERATOR = _generator()


# --- generated parts ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(GENERATOR.SECTIONS))
def test_generated_part_is_as_the_code_has_it(name: str) -> None:
    found = [
        match["body"]
        for path in GENERATOR.DOCUMENTS
        for match in GENERATOR.SECTION.finditer((ROOT / path).read_text())
        if match["name"] == name
    ]
    assert found == [GENERATOR.SECTIONS[name]()], "run scripts/docs"


def test_nothing_is_marked_as_generated_that_is_not() -> None:
    for path in DOCUMENTS:
        text = path.read_text()
        names = [match["name"] for match in GENERATOR.SECTION.finditer(text)]
        assert len(names) == text.count("<!-- generated:"), f"{path}: a mark without its end"
        assert not names or str(path.relative_to(ROOT)) in GENERATOR.DOCUMENTS
        assert set(names) <= set(GENERATOR.SECTIONS)


# --- fields ---------------------------------------------------------------------------------------


def _rows(name: str) -> dict[str, str]:
    """The rows of a field table, by field."""
    text = API.read_text()
    start = text.index(f"<!-- fields: {name} -->")
    found = text[start : text.index("\n\n", start)]
    return {match["field"]: match[0] for match in _ROW.finditer(found)}


@pytest.mark.parametrize(
    "body",
    [
        GenerationBody,
        ChatBody,
        CompletionBody,
        ChatMessage,
        TokenizeBody,
        DetokenizeBody,
        MessagesBody,
        ResponsesBody,
    ],
)
def test_every_field_of_a_body_is_documented(body: type[msgspec.Struct]) -> None:
    refused = {row.field.rpartition(".")[2] for row in UNSUPPORTED}
    own = {field.name for field in msgspec.structs.fields(body)}
    if body in (ChatBody, CompletionBody):
        own -= {field.name for field in msgspec.structs.fields(GenerationBody)}
    rows = set(_rows(body.__name__))
    assert own - refused <= rows, "fields without a row"
    assert rows <= own, "rows without a field"


@pytest.mark.parametrize("entry", checks.SHARED_RANGES, ids=lambda entry: entry.field)
def test_documented_range_is_the_one_that_is_checked(entry: checks.Range) -> None:
    assert entry.words in _rows("GenerationBody")[entry.field]


@pytest.mark.parametrize(
    ("table", "field", "words"),
    [
        ("GenerationBody", "stop", [checks.MAX_STOP_STRINGS, checks.MAX_STOP_CHARS]),
        ("GenerationBody", "stop_token_ids", [checks.MAX_STOP_TOKEN_IDS]),
        ("GenerationBody", "user", [checks.MAX_LABEL_CHARS]),
        (
            "GenerationBody",
            "metadata",
            [
                checks.MAX_METADATA,
                checks.MAX_METADATA_KEY_CHARS,
                checks.MAX_METADATA_VALUE_CHARS,
            ],
        ),
        ("ChatBody", "messages", [MAX_MESSAGES]),
        ("ChatBody", "max_completion_tokens", [checks.MAX_COUNT]),
        ("ChatBody", "tools", [MAX_TOOLS, MAX_TOOL_NAME_CHARS]),
        ("ChatBody", "reasoning_effort", REASONING_EFFORTS),
        ("ChatBody", "chat_template_kwargs", [MAX_TEMPLATE_KWARGS]),
        ("ChatMessage", "role", ROLES),
        ("CompletionBody", "prompt", [checks.MAX_PROMPTS]),
        ("CompletionBody", "best_of", [checks.MAX_CHOICES]),
        ("DetokenizeBody", "tokens", [MAX_DETOKENIZE]),
    ],
)
def test_documented_limit_is_the_one_in_the_code(
    table: str, field: str, words: Sequence[object]
) -> None:
    row = _rows(table)[field]
    for word in words:
        assert re.search(rf"(?<!\w){word}(?!\w)", row), f"{word} is not in: {row}"


# --- links and commands ---------------------------------------------------------------------------


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    dead: list[str] = []
    for match in _LINK.finditer(_FENCE.sub("", path.read_text())):
        target, _, anchor = match["target"].partition("#")
        if "://" in target:
            continue
        file = path.parent / target if target else path
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            dead.append(match["target"])
    assert not dead


def _commands(text: str) -> Iterator[list[str]]:
    """The words of every `refloat …` in code, without what leads to the program."""
    for match in re.finditer(r"(?:^\$ (?:\S*/)?|`)refloat (?P<rest>[^`\n]+)", text, re.MULTILINE):
        yield match["rest"].split()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_named_commands_and_options_exist(path: Path) -> None:
    found = list(_commands(path.read_text()))
    assert found or path.name not in ("README.md", "API.md"), "the pattern finds no command"
    for words in found:
        command: Any = typer.main.get_command(app)
        while words and hasattr(command, "commands") and words[0].isalpha():
            assert words[0] in command.commands, f"{path.name}: refloat {' '.join(words)}"
            command = command.commands[words.pop(0)]
        known = {opt for param in command.params for opt in (*param.opts, *param.secondary_opts)}
        known |= {"--help"}
        named = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert named <= known, f"{path.name}: {named - known}"


def test_options_named_alone_exist() -> None:
    command: Any = typer.main.get_command(app)
    serve = command.commands["serve"]
    known = {opt for param in serve.params for opt in (*param.opts, *param.secondary_opts)}
    for path in (ROOT / "README.md", API, ROOT / "SECURITY.md"):
        named = set(re.findall(r"`(--[a-z][\w-]*)`", path.read_text()))
        assert named <= known, f"{path.name}: {named - known}"


def test_variables_named_in_documents_exist() -> None:
    from refloat.config.fields import FIELDS
    from refloat.config.load import RESERVED_VARIABLES

    known = {field.env for field in FIELDS.values()} | RESERVED_VARIABLES
    for path in DOCUMENTS:
        named = set(re.findall(r"\bREFLOAT_[A-Z_]+", path.read_text()))
        assert named <= known, f"{path.name}: {named - known}"


def test_make_targets_named_in_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in (*DOCUMENTS, *(ROOT / name for name in ("AGENTS.md", "CONTRIBUTING.md"))):
        named = set(re.findall(r"(?:^\$ |`)make ([a-z-]+)", path.read_text(), re.MULTILINE))
        assert named <= targets, f"{path.name}: {named - targets}"
