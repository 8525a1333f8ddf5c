"""`<think>...</think>`: Qwen, DeepSeek, GLM, Kimi, MiniCPM and most others."""

from refloat.parsing.reasoning.tagged import Tags

THINK = Tags("<think>", "</think>")
#: A model that calls in the middle of its thinking has ended it by that.
THINK_KIMI = THINK._replace(also_ends=("<|tool_calls_section_begin|>",))
