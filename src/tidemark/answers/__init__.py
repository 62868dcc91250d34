"""Questions about what is there: audit, explain, why, classify, advise, show. Nothing here writes."""
