"""What the engine's grammar compiler says."""


class CompileError(Exception):
    """It would not take a grammar; its own words."""
