"""Gemma 4: a channel `<|channel>thought` that ends with `<channel|>`."""

from refloat.parsing.reasoning.tagged import Tags

GEMMA = Tags("<|channel>thought\n", "<channel|>")
