"""What is defined, immutable: tables, views, rules, and how definitions replace each other."""
