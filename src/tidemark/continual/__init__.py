"""What lags on purpose: snapshots, continual queries, and the log that waits for them, but not for ever."""
