"""`refloat drill` and `refloat soak`: what a user can do to see how his own model bears faults."""
