"""Active rules: which instances of a condition a block makes true, and which events happen in it."""
