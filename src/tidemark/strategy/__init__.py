"""How one node is brought up to date for one block: the ladder, its limits and what it costs."""
