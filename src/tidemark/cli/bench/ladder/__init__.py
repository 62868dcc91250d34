"""What the upper rungs of the strategy ladder gain: autonomous steps and filters, beside the same without them."""
