"""The worker program: drives one engine, and is the part that may die."""
