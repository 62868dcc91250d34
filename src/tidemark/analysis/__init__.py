"""Facts about plans and conditions, proved from definitions alone: no row is read here, and no engine is known."""
