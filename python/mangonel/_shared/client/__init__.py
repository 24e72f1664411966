"""Clients and databases: one definition for every face."""
