"""Mechanisms with an external authority: AWS signs, identity providers issue tokens.

Each has a *responder*, one for each client; the handshake calls it through `_core` for its next message. A responder
may block: the blocking face calls it in the caller's thread, asyncio in the loop's executor.
"""
