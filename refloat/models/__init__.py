"""Where models come from, where they are kept, and what is known of one before it is loaded."""
