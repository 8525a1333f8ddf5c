"""Tool calls as grammars: each family's own text, read by its parser in `refloat.parsing.tools`."""
