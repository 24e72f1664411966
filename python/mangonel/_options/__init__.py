"""What options mean before a client is made of them: checks of their values, DNS seed lists, TLS contexts."""
