"""The only code that waits: one port per way of waiting. Knows sockets and loops, not BSON and not commands."""
