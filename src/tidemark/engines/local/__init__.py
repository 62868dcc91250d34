"""Small plans in this process: over rows and over Arrow, without a statement of an engine."""
