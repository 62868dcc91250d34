"""Texts to statements: tokens, places, and the statements that sqlglot does not know."""
