"""The engines: the only places that import their engine. All of them pass one conformance suite."""
