"""The command line: ``tidemark run``, ``tidemark explain`` and ``tidemark audit``."""
