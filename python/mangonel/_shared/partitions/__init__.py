"""Partitions of a query: ranges of an index that are read separately, here or in other processes."""
