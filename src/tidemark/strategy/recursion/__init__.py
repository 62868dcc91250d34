"""The differential rung for recursion: maintenance, rederivation, iteration, and evaluating anew."""
