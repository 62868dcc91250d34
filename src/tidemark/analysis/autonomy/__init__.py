"""When a view and a change suffice, and no base table has to be read."""
