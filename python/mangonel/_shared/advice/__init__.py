"""Advice while developing: which commands scan, sort in memory, repeat or load without bound.

Loaded only when asked for. `places` finds the line of the program, `shapes` tells commands apart, `plans` reads the
server's explanations, `advisor` listens and warns.
"""
