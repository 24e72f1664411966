"""Conditions, changes, orders and paths as values: what class attributes of models become. Sends nothing."""
