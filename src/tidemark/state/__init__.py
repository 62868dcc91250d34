"""What is committed, what is pending, and what a point of a transaction sees; events."""
