"""From token ids to final text: detokenizing, stop strings, and later reasoning and tool calls."""
