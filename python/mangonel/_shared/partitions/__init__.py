"""Partitions of a query: ranges of an index that are read by themselves, here or in other processes."""
