"""What the programs say to each other: messages, framing, the progress page. Imports no sibling."""
