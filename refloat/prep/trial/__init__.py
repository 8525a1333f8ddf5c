"""Grammars tried where it does no harm: in a throw-away child of prep, with limits."""
