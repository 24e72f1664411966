"""Queries: what is wanted, reading it, changing what matches, and what references and delete rules make of it."""
