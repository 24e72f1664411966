"""What machine and which software a result was measured with: results of two fingerprints do not compare."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any


def fingerprint(argv: list[str]) -> dict[str, Any]:
    """Return the machine, the interpreter and the source tree as they are now."""
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "unknown",
        "virtual": " hypervisor" in (_read("/proc/cpuinfo") or ""),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "python_build": sysconfig.get_config_var("CONFIG_ARGS") or "",
        "load": [round(figure, 2) for figure in os.getloadavg()],
        "pressure": _pressure(),
        "commit": _commit(),
        "argv": argv,
    }


def machine(found: dict[str, Any]) -> str:
    """Return one line that names the machine."""
    kind = "virtual machine" if found["virtual"] else "machine"
    return (
        f"{found['cpu']}, {found['cores']} cores ({kind}), {found['memory_mb'] // 1024} GiB, "
        f"Linux {found['kernel']}, CPython {found['python']}"
    )


def _cpu() -> str:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _pressure() -> float:
    """Return the share of the last ten seconds in which some task waited for a core, in percent."""
    for word in (_read("/proc/pressure/cpu") or "").split():
        if word.startswith("avg10="):
            return float(word.partition("=")[2])
    return -1.0


def _commit() -> str:
    where = Path(sys.modules[__name__].__file__ or ".").parent
    try:
        told = subprocess.run(
            ["git", "-C", str(where), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return told.stdout.strip() or "unknown"


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text()
    except OSError:
        return None
