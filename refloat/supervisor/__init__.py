"""Child processes: their life, their faults, and the one truthful picture of them (`fleet.py`)."""
