"""Who follows the log, how far each has come, and what may be forgotten."""
