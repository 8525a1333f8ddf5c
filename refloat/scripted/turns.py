"""Finds the last message of a user or of a tool in a rendered prompt, whatever template rendered it.

Knows how the families whose calls are parsed write turns. A prompt without turns is all message.
"""

import json
import re
from typing import Any

_ROLE = "(?:user|tool|ipython|observation|tool_response|tool_result)"
_CHATML = re.compile(rf"<\|im_start\|>{_ROLE}\n(.*?)(?=<\|im_end\|>|<\|im_start\|>|\Z)", re.DOTALL)
_OPENS = re.compile(
    "|".join(
        (
            # Llama, Granite, Gemma, gpt-oss
            rf"<\|(?:start_header_id|header_start)\|>{_ROLE}<\|(?:end_header_id|header_end)\|>\n\n",
            rf"<\|start_of_role\|>{_ROLE}<\|end_of_role\|>",
            r"<start_of_turn>user\n|<\|turn>(?:user|tool)\n|<\|tool_response>response:\w*\{value:",
            r"<\|(?:start|begin)\|>user<\|(?:message|content)\|>",
            r"<\|start\|>functions\.\S* to=assistant<\|channel\|>commentary<\|message\|>",
            # GLM and Phi, Ling and Spark, Seed, Kimi, DeepSeek, Mistral
            rf"<\|{_ROLE}\|>\n?|<\|(?:User|Tool)\|>|<role>(?:HUMAN|OBSERVATION)</role>",
            r"<seed:bos>(?:user|tool)\n",
            r"<\|im_user\|>user<\|im_middle\|>",
            r"<\|im_system\|>tool<\|im_middle\|>(?:## Return of \S*?(?:\n|\\n))?",
            r"<｜User｜>|<｜tool▁output▁begin｜>",
            r"\[INST\] ?|\[TOOL_RESULTS\](?:\w*\[TOOL_CONTENT\])?",
        )
    )
)
_CLOSES = re.compile(
    r"<\|(?:im_end|im_assistant|eot_id|eot|eom|end_of_text|end|start|begin|assistant|start_of_role"
    r"|start_header_id|header_start)\|>|<end_of_turn>|<turn\|>|<tool_response\|>|<｜"
    r"|<seed:eos>|<\|role_end\|>|\[/(?:INST|TOOL_RESULTS)\]|</s>"
)
_GEMMA_QUOTE = '<|"|>'
_WRAPS = (
    *(
        (f"<{name}>", f"</{name}>")
        for name in ("tool_response", "tool_result", "response", "result")
    ),
    ("<|tool_response_start|>", "<|tool_response_end|>"),
)


def last_message(prompt: str) -> str:
    """Its text as it was sent, as far as the template left it so."""
    turns = _CHATML.findall(prompt)
    if turns:
        return _unwrapped(turns[-1])
    begins = [opened.end() for opened in _OPENS.finditer(prompt)]
    if not begins:
        return prompt
    closed = _CLOSES.search(prompt, begins[-1])
    text = prompt[begins[-1] : len(prompt) if closed is None else closed.start()]
    return _unquoted(_unwrapped(text).strip())


def _unwrapped(text: str) -> str:
    """Without the tags that some templates put around results; of several the last."""
    whole = text.rstrip()
    for opens, closes in _WRAPS:
        start = whole.rfind(opens) if whole.endswith(closes) else -1
        if start >= 0:
            return whole[start + len(opens) : -len(closes)].strip("\n")
    return text


def _unquoted(text: str) -> str:
    """Without the quotes that some templates put around results."""
    if text.startswith(_GEMMA_QUOTE):
        return text.removeprefix(_GEMMA_QUOTE).partition(_GEMMA_QUOTE)[0]
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            value: Any = json.loads(text)
        except ValueError:
            return text
        return value if isinstance(value, str) else text
    return text
