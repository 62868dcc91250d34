"""Lagging relations: snapshots, continual queries, and the log that waits for them, but not for ever."""
