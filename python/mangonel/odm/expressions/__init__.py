"""Conditions, updates, sort orders and paths as values, built from class attributes of models. Sends nothing."""
