"""Mechanisms whose words come from somebody else: AWS signs, identity providers give out tokens.

Each has a *responder*, one for each client, that the handshake asks for its next word through `_core`. It may block:
the blocking face calls it in the caller's thread, asyncio in the loop's executor.
"""
