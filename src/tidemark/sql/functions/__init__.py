"""How the families of functions are bound, where a row of the table of functions alone does not say it."""
