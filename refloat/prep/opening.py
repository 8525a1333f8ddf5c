"""Opening a model: tokenizer, token table, template, and what the gateway has to know of them."""

from pathlib import Path
from typing import NamedTuple

from refloat.prep.chat import ChatRenderer
from refloat.prep.error import PrepError
from refloat.prep.facts import ModelFacts
from refloat.prep.jobs import JobRunner
from refloat.prep.sources import TemplateSource, find_template
from refloat.prep.table import TokenBytes
from refloat.prep.template import ChatTemplate, TemplateLoadError
from refloat.prep.tokenizer import Tokenizer
from refloat.scripted.script import ScriptError, script_of
from refloat.scripted.tokens import ScriptedTokenizer
from refloat.wire.prep_messages import PrepConfigure, PrepReady


class _Opened(NamedTuple):
    """A model's parts, whatever kind of tokenizer it has."""

    tokenizer: Tokenizer
    table: TokenBytes
    bos_id: int | None
    eos_ids: tuple[int, ...]
    special_texts: dict[str, str]
    template: TemplateSource | None


def open_model(configure: PrepConfigure) -> tuple[JobRunner, PrepReady]:
    """Everything that jobs need. Raises `PrepError`.

    A template that is missing or broken is no reason to fail: all but chat works without.
    """
    match configure.tokenizer:
        case "openvino":
            parts = _open_openvino(configure)
        case "scripted":
            parts = _open_scripted(configure)
        case other:
            raise PrepError(f"there is no tokenizer of kind {other!r}")
    chat, unavailable = _open_chat(parts, configure.render_limit_s)
    source = parts.template
    ready = PrepReady(
        table=parts.table.wire(),
        vocab_size=len(parts.table.words),
        bos_token_id=parts.bos_id,
        eos_token_ids=parts.eos_ids,
        chat_template=source.origin if source is not None and chat is not None else None,
        template_text=None if source is None or chat is None else source.whole_text,
        chat_unavailable=unavailable,
    )
    return JobRunner(parts.tokenizer, parts.table, chat, unavailable), ready


def _open_chat(parts: _Opened, limit_s: float) -> tuple[ChatRenderer | None, str | None]:
    source = parts.template
    if source is None:
        return None, "the model has no chat template"
    try:
        template = ChatTemplate(source, parts.special_texts, limit_s=limit_s)
    except TemplateLoadError as error:
        return None, f"the chat template ({source.origin}) cannot be compiled: {error}"
    return ChatRenderer(template), None


def _open_openvino(configure: PrepConfigure) -> _Opened:
    # Imported here, since the scripted model has to start without these libraries.
    from refloat.prep.detokenize import read_token_bytes
    from refloat.prep.graph import Graphs, rt_info
    from refloat.prep.tokens import OpenVinoTokenizer

    folder = Path(configure.model_path)
    graphs = Graphs()
    path = folder / "openvino_tokenizer.xml"
    tokenizer = OpenVinoTokenizer(graphs, path)
    table = read_token_bytes(graphs, folder / "openvino_detokenizer.xml", tokenizer)
    notes = graphs.read(path)
    facts = ModelFacts(folder, lambda key: rt_info(notes, key))
    return _Opened(
        tokenizer,
        table,
        facts.bos_id(table),
        facts.eos_ids(table),
        facts.special_texts(table),
        find_template(facts, configure.chat_template_file),
    )


class _ScriptedEncoder:
    """The scripted tokenizer by the `Tokenizer` contract; it knows no tokens around a text."""

    def __init__(self, tokenizer: ScriptedTokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return self._tokenizer.encode(text)


def _open_scripted(configure: PrepConfigure) -> _Opened:
    try:
        tokenizer = ScriptedTokenizer(script_of(configure.options))
    except ScriptError as error:
        raise PrepError(str(error)) from error
    words = [tokenizer.token_bytes(token) for token in range(tokenizer.vocab_size)]
    table = TokenBytes(words, frozenset(tokenizer.special_ids))
    template = TemplateSource("scripted", tokenizer.chat_template)
    if configure.chat_template_file:
        facts = ModelFacts(Path(), lambda _: None)
        template = find_template(facts, configure.chat_template_file)
    return _Opened(_ScriptedEncoder(tokenizer), table, None, tokenizer.eos_ids, {}, template)
