"""Magistral, Ministral and others of Mistral's reasoning models: `[THINK]...[/THINK]`."""

from refloat.parsing.reasoning.tagged import Tags

MISTRAL = Tags("[THINK]", "[/THINK]")
