"""Spark's format "dying": this package's format, whose workers die once in a read and once after a commit."""

import gc

from common import DyingTarget, dying_in_a_read
from pyspark.sql.datasource import DataSourceReader

from mangonel.spark import MangonelSource


class DyingSource(MangonelSource):
    @classmethod
    def name(cls):
        return "dying"

    def reader(self, schema):
        return _Reader(super().reader(schema))

    def _target(self, *arguments, **options):
        target, ids = super()._target(*arguments, **options)
        target.__class__ = DyingTarget
        return target, ids


class _Reader(DataSourceReader):
    def __init__(self, reader):
        self._reader = reader

    def partitions(self):
        planned = self._reader.partitions()
        is_settled()
        return planned

    def read(self, partition):
        yield from dying_in_a_read(self._reader.read(partition))
        is_settled()


def is_settled():
    """Fail unless the garbage collection after this task skips the worker's imports."""
    assert gc.get_freeze_count() > 10_000, gc.get_freeze_count()
