"""Shipped for users' tests too: a private server, a scripted model, a client, a clock."""
