"""The only code that waits: one port for each way of waiting. Knows sockets and loops, neither BSON nor commands."""
