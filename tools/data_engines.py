"""`python tools/data_engines.py`: make the environment for the tests of Ray, Dask and Spark; print its Python.

These engines are too large for the development environment. Theirs is in the cache
(`$XDG_CACHE_HOME/mangonel/data-engines`), has the versions of requirements/data-engines.txt, and uses the package of
this checkout.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements/data-engines.txt"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mangonel" / "data-engines"


def environment() -> Path:
    """Return the interpreter; install missing packages.

    Raises:
        subprocess.CalledProcessError: pip could not install, for example without a network.
    """
    version = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    folder = CACHE / f"{version}-{sys.version_info.major}.{sys.version_info.minor}"
    python, done = folder / "bin/python", folder / "ready"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "-r", REQUIREMENTS], check=True)
        done.touch()
    return python


if __name__ == "__main__":
    print(environment())
