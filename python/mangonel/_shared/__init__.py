"""One definition of every public class. Knows commands and results; must not know which face runs them.

A public method builds an operation or a flow and passes it to the port, which returns the value on the blocking face
and a coroutine on asyncio. `FaceResult[T]` in a signature marks such a method for `tools/stubs.py`, which writes the
types.
"""
