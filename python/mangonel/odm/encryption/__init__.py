"""Encrypted fields: finds the values of a command to encrypt; the model's port encrypts them."""
