"""A transaction that matters to 3 views among thousands, beside the same one where there are only those 3."""
