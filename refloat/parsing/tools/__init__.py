"""Tool calls in a model's text: one format in each file, read by a driver that they share."""
