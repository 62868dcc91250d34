"""What comes from other systems: tables that others write, followed here exactly."""
