"""One definition of every public class. Knows commands and results; must not know which face runs them.

A public method builds an operation or a flow and gives it to the port; what comes back is the value on the blocking
face and a coroutine on asyncio. `Returns[T]` in a signature says so to `tools/stubs.py`, which writes the types.
"""
