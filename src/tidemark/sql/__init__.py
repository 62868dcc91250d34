"""SQL text to bound, typed plans. sqlglot gives the syntax; names, types and meanings are ours."""
