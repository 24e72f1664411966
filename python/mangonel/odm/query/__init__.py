"""Queries: building, reading, changing matches, references and delete rules."""
