"""Files of lines, compressed as their names say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, Any

__all__ = ["damages", "is_compressed", "open_lines"]


def open_lines(path: Path, mode: str) -> IO[bytes]:
    """Open a file for its uncompressed bytes.

    Args:
        path: by its name it is compressed with gzip (`.gz`) or Zstandard (`.zst`), or not at all.
        mode: "rb" or "wb".

    Raises:
        ImportError: the file is Zstandard's and Python has nothing for that (before 3.14: `backports.zstd`).
        OSError: it cannot be opened.
    """
    opened: Any
    if path.suffix == ".gz":
        import gzip

        # The best compression takes four times as long for some per cent.
        opened = gzip.GzipFile(path, mode, compresslevel=6)
    elif path.suffix == ".zst":
        opened = _zstd().open(path, mode)
    else:
        opened = path.open(mode)
    return opened  # type: ignore[no-any-return]  # each opener types its own modes only


def is_compressed(path: Path) -> bool:
    """Tell whether the name says so."""
    return path.suffix in (".gz", ".zst")


def damages(path: Path) -> tuple[type[Exception], ...]:
    """Return what reading raises where compressed data are cut or changed."""
    if path.suffix == ".gz":
        import gzip
        import zlib

        return EOFError, zlib.error, gzip.BadGzipFile
    if path.suffix == ".zst":
        return EOFError, _zstd().ZstdError
    return ()


def _zstd() -> Any:
    import importlib

    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    return importlib.import_module(name)
