"""Why prep cannot open a model. What is wrong with one request is a `Problem`, not this."""


class PrepError(Exception):
    """The tokenizer cannot be used as it is; the message is for the operator."""
