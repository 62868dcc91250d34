"""The benchmark: the time until views are up to date again, beside recomputation and SQL written by hand."""
