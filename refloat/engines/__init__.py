"""Engines: ids in, ids out, behind one contract (`base.py`)."""
