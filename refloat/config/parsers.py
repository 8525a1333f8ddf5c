"""The names that settings may give to formats of calls and of reasoning. What they mean is known to
`parsing/families.py`; a test holds the two together.
"""

from typing import Literal

ToolParser = Literal[
    "none",
    "hermes",
    "qwen3_coder",
    "seed_oss",
    "llama3_json",
    "llama4_pythonic",
    "mistral",
    "devstral",
    "phi4",
    "gpt_oss",
    "gemma",
    "granite",
    "deepseek_v3",
    "deepseek_v31",
    "glm",
    "kimi_k2",
    "lfm2",
    "minicpm",
]

ReasoningParser = Literal[
    "none",
    "think",
    "kimi_k2",
    "granite",
    "gpt_oss",
    "gemma",
    "mistral",
    "seed_oss",
]
