"""What a transaction leaves behind: commits, versions and deltas as Arrow tables."""

from tidemark.log.commit import Commit, Creation, Loaded

__all__ = ["Commit", "Creation", "Loaded"]
