"""The stand-in model: its script, its tokenizer, its answers. Pure; imports no sibling package."""
