"""Refloat serves language models on OpenVINO; a generation survives the worker that runs it."""

__version__ = "0.1.0"
