"""The only code that waits: one port for each way of waiting. Knows sockets and loops, but no BSON and no commands."""
