"""When a change cannot matter to a view."""
