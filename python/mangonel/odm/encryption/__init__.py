"""Encrypted fields on their way: which values of a command are encrypted, and the port that has it done."""
