"""Syntax trees to typed plans: every name becomes a column, every call a row of the table of functions."""
