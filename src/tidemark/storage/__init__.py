"""What a transaction leaves behind: commits, versions and deltas as Arrow tables."""

from tidemark.storage.commit import Alteration, Commit, Creation, Forgetting, Loaded

__all__ = ["Alteration", "Commit", "Creation", "Forgetting", "Loaded"]
