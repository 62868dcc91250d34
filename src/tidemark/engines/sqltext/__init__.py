"""Plans as SQL texts, for the engines that take them."""
