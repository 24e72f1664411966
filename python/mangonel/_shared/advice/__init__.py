"""Advice while developing: which commands scan, sort in memory, repeat or load without bound.

Loaded only on request. `places` finds the line of the program, `shapes` distinguishes commands, `plans` reads the
server's explanations, `advisor` listens and warns.
"""
