"""The cost of many active rules: ``tidemark bench --rules N``."""
