"""The vocabulary of one model's tokenizer: read from prep's table once, whichever prep it was."""

from collections.abc import Callable

from refloat.observe.log import get_logger
from refloat.parsing.vocabulary import Vocabulary
from refloat.wire.prep_messages import PrepReady

_log = get_logger(__name__)


class VocabularyOf:
    """Called for it. Raises `RuntimeError` before the first prep was ready."""

    def __init__(self, model: str, ready_info: Callable[[], PrepReady | None]) -> None:
        self._model = model
        self._ready_info = ready_info
        self._vocabulary: Vocabulary | None = None

    def __call__(self) -> Vocabulary:
        if self._vocabulary is None:
            info = self._ready_info()
            if info is None:
                raise RuntimeError("a model's facts are known only after its prep is ready")
            self._vocabulary = Vocabulary.from_table(info.table)
            if not self._vocabulary.exact:
                _log.warning("tokenizer_tidies_text", model=self._model, served="untidied")
        return self._vocabulary
