"""Tests of the documentation: its code runs, its links have targets, its reference is complete."""
