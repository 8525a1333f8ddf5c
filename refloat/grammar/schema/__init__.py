"""JSON Schema, keyword by keyword, as grammars of JSON text."""
