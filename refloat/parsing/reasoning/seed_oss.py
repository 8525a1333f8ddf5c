"""Seed-OSS: `<seed:think>...</seed:think>`."""

from refloat.parsing.reasoning.tagged import Tags

SEED_OSS = Tags("<seed:think>", "</seed:think>")
