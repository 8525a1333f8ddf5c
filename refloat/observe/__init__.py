"""Logs, metrics, and later the evidence of faults. Imports no sibling but `wire`."""
