"""What lags under the clock: snapshots against recomputation, many continual queries, and the log in a long run."""
