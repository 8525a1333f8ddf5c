"""Granite 3.3: `<think>...</think><response>...</response>`."""

from refloat.parsing.reasoning.tagged import Tags

GRANITE = Tags("<think>", "</think>", answer_opens="<response>", answer_closes="</response>")
