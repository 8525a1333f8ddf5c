"""Why a model cannot be had. One sentence, for the person who started the server."""


class ModelError(Exception):
    """This model cannot be served; the message says what is missing and what would help."""

    @property
    def reason(self) -> str:
        """The sentence."""
        return str(self)


class IncompleteFolderError(ModelError):
    """A model folder lacks something or holds a damaged file: a cached one is built again."""
