"""Reasoning in a model's text, told apart from the answer."""
