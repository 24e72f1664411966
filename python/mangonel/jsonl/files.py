"""Files of lines; the name decides whether they are compressed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, Any

__all__ = ["damages", "is_compressed", "open_lines"]


def open_lines(path: Path, mode: str) -> IO[bytes]:
    """Open a file of uncompressed or compressed lines.

    Args:
        path: `.gz` means gzip, `.zst` means Zstandard, any other name no compression.
        mode: "rb" or "wb".

    Raises:
        ImportError: Python cannot read Zstandard (before 3.14 it needs `backports.zstd`).
        OSError: the file cannot be opened.
    """
    opened: Any
    if path.suffix == ".gz":
        import gzip

        # The best compression takes four times as long and saves a few per cent.
        opened = gzip.GzipFile(path, mode, compresslevel=6)
    elif path.suffix == ".zst":
        zstd = _zstd()
        # With a checksum, as in gzip: otherwise damage may read as other lines.
        options = {zstd.CompressionParameter.checksum_flag: 1} if mode == "wb" else None
        opened = zstd.open(path, mode, options=options)
    else:
        opened = path.open(mode)
    return opened


def is_compressed(path: Path) -> bool:
    """Return whether the name means compression."""
    return path.suffix in (".gz", ".zst")


def damages(path: Path) -> tuple[type[Exception], ...]:
    """Return the exceptions that reading raises for truncated or altered compressed data."""
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
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{error}; .zst needs Python 3.14, or: pip install backports.zstd") from error
