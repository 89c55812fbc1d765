"""Text: a transformer and a small GPT."""
