"""The bodies of each dialect, as typed structs."""
