"""What a Python worker of Spark does once for all of its tasks."""

from __future__ import annotations

import gc
import sys

__all__ = ["settle"]

_is_settled = False


def settle() -> None:
    """Keep all that a worker has imported out of its looks for garbage.

    Spark's daemon looks for garbage behind every task, also behind each plan: 0.05 s of CPU with pandas, pyarrow and
    pyspark imported. Call it at the end of a task, when nothing more will be imported. Does nothing elsewhere.
    """
    global _is_settled
    if _is_settled:
        return
    _is_settled = True
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name == "pyspark.daemon":
        gc.freeze()
