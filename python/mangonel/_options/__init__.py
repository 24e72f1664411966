"""Processing of options before a client is made: checks of values, DNS seed lists, TLS contexts."""
