"""The command line: ``tidemark run``, ``shell``, ``explain``, ``audit``, ``status`` and ``bench``."""
