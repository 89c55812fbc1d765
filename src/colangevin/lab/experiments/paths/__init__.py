"""The loss along paths between networks."""
