"""Explicit sessions and their transactions. (HTTP sessions are websessions.)"""
