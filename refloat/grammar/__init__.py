"""What a generation's text may be, as one kind of grammar: made, bounded, matched, and cut. Pure."""
