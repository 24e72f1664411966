"""The set-up that a Python worker of Spark does once for all of its tasks."""

from __future__ import annotations

import gc
import sys

__all__ = ["settle"]

_is_settled = False


def settle() -> None:
    """Freeze the modules that a worker has imported, so that garbage collections skip it.

    Spark's daemon collects garbage after every task and every plan, which takes 0.05 s of CPU with pandas, pyarrow and
    pyspark imported. Call this at the end of a task, when nothing more will be imported. Does nothing elsewhere.
    """
    global _is_settled
    if _is_settled:
        return
    _is_settled = True
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name == "pyspark.daemon":
        gc.freeze()
