"""Settings: what they are (`schema`), where they come from (`load`), whether they fit (`check`)."""
