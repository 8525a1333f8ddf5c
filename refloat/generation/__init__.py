"""A generation as a value: journals, admission, dispatch. Knows nothing of HTTP or of processes."""
