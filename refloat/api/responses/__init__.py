"""`/responses`: stored answers, and the translation and encoding of their dialect."""
