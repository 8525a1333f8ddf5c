"""The last message of a prompt, as the templates of several families write it."""

# ruff: noqa: E501 # turns are easier to read on one line

import pytest

from refloat.scripted.turns import last_message

EARLIER = "early [words]"
LAST = "What? [now]\n\nPlease."


@pytest.mark.parametrize(
    ("before", "turn", "after"),
    [
        ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n", "<|im_start|>assistant\n"),
        ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>user\n<tool_response>\nx\n</tool_response>\n"
         "<tool_response>\n{}\n</tool_response><|im_end|>\n", "<|im_start|>assistant\n<think>\n"),
        ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>tool\n"
         "<|tool_response_start|>{}<|tool_response_end|><|im_end|>\n", "<|im_start|>assistant\n"),
        ("<|start_header_id|>user<|end_header_id|>\n\n",
         "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|>",
         "<|start_header_id|>assistant<|end_header_id|>\n\n"),
        ("<|header_start|>user<|header_end|>\n\n", "<|eot|><|header_start|>ipython<|header_end|>\n\n{}<|eot|>",
         "<|header_start|>assistant<|header_end|>\n\n"),
        ("<|start_of_role|>user<|end_of_role|>",
         "<|end_of_text|>\n<|start_of_role|>tool<|end_of_role|>{}<|end_of_text|>\n",
         "<|start_of_role|>assistant<|end_of_role|>"),
        ("<start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>user\n{}<end_of_turn>\n",
         "<start_of_turn>model\n"),
        ("<|turn>user\n", "<turn|>\n<|tool_response>response:f{{value:<|\"|>{}<|\"|>}}<tool_response|>", ""),
        ("<|start|>user<|message|>", "<|end|><|start|>user<|message|>{}<|end|>", "<|start|>assistant"),
        ("<|user|>\n", "<|end|>\n<|assistant|>\nx<|end|>\n<|user|>\n{}<|end|>\n", "<|assistant|>\n"),
        ("<|user|>\n", "<|observation|>\n<tool_response>\n{}\n</tool_response>\n", "<|assistant|>\n"),
        ("<|im_user|>user<|im_middle|>",
         "<|im_end|><|im_system|>tool<|im_middle|>## Return of functions.f:0\n{}<|im_end|>",
         "<|im_assistant|>assistant<|im_middle|>"),
        ("<｜User｜>", "<｜Assistant｜>x<｜end▁of▁sentence｜><｜User｜>{}", "<｜Assistant｜><think>\n"),
        ("<｜User｜>", "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>{}<｜tool▁output▁end｜>", ""),
        ("<seed:bos>user\n", "<seed:eos><seed:bos>tool\n{}<seed:eos>", "<seed:bos>assistant\n"),
        ("<role>HUMAN</role>", "<|role_end|><role>HUMAN</role>{}<|role_end|>", "<role>ASSISTANT</role>"),
    ],
)  # fmt: skip
def test_last_message_is_found_in_the_turns_of_each_family(
    before: str, turn: str, after: str
) -> None:
    assert last_message(before + EARLIER + turn.format(LAST) + after) == LAST


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("[INST] early[/INST]x</s>[INST] What?[/INST]", "What?"),
        ("[INST]early[/INST][TOOL_RESULTS]c1[TOOL_CONTENT]sun[/TOOL_RESULTS]", "sun"),
        ('<|start|>functions.f to=assistant<|channel|>commentary<|message|>"a \\"b\\""<|end|>', 'a "b"'),
        ('<|user|>"no" and "yes"', '"no" and "yes"'),
        ("no turns at all", "no turns at all"),
        ("", ""),
    ],
)  # fmt: skip
def test_last_message_of_other_forms(prompt: str, message: str) -> None:
    assert last_message(prompt) == message
