"""Recursion under the clock: a transitive closure that follows insertions and deletions of edges."""
