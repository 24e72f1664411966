"""The machine and the software of a measurement: results of two machines are not comparable."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

from mangonel import _core
from mangonel.lab.cores import available
from mangonel.lab.sentinel import pressure, read, ticks

# The facts that two comparable results share, and the name of a difference.
SAME = {"cpu": "processor", "cores": "cores", "memory_gb": "memory in GiB", "virtual": "virtual machine"}


def fingerprint(argv: list[str]) -> dict[str, Any]:
    stolen, total = ticks()
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpu": _cpu(),
        "cores": len(available()) or os.cpu_count() or 1,
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "governor": (read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "unknown").strip(),
        "virtual": " hypervisor" in (read("/proc/cpuinfo") or ""),
        "mitigations": _mitigations(),
        "stolen_since_boot": round(stolen / max(1, total), 4),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "fast_paths": _core._fast_paths(),
        "python_build": sysconfig.get_config_var("CONFIG_ARGS") or "",
        "load": [round(figure, 2) for figure in os.getloadavg()],
        "pressure": pressure(),
        "commit": _commit(),
        "build": build_of_core(),
        "argv": [os.path.basename(word) if number == 0 else word for number, word in enumerate(argv)],
    }


def build_of_core() -> str:
    """Return "quick" for a build without whole-program optimisation, "trained" for one with a profile, or "release"."""
    # The Makefile writes this file.
    return (read(f"{sys.prefix}/mangonel-build") or "release").strip()


def machine(found: dict[str, Any]) -> str:
    kind = "virtual machine" if found["virtual"] else "machine"
    slow = [f"{name} {word}" for name, word in found.get("fast_paths", {}).items() if word != "on"]
    return (
        f"{found['cpu']}, {found['cores']} cores ({kind}), {found['memory_mb'] // 1024} GiB, "
        f"Linux {found['kernel']}, CPython {found['python']} ({'; '.join(slow) or 'fast paths on'})"
    )


def placement(found: dict[str, Any]) -> str:
    """Return a sentence with the cores of the measuring equipment in experiments that load a site."""
    if not (where := found.get("equipment", "")):
        return ""
    return (
        f"where a site is loaded, equipment on {where}: the load generator, the servers and the proxies; "
        "contenders are kept nowhere"
    )


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return the differences between two fingerprints' machines or servers, in words."""
    found = []
    for name, word in SAME.items():
        values = [_same(each, name) for each in (one, other)]
        if values[0] != values[1]:
            found.append(f"{word}: {values[0]} and {values[1]}")
    for name in ("version", "topology"):
        values = [each.get("server", {}).get(name) for each in (one, other)]
        if values[0] != values[1]:
            found.append(f"server {name}: {values[0]} and {values[1]}")
    if one["python"] != other["python"]:
        found.append(f"CPython: {one['python']} and {other['python']}")
    return found


def _same(found: dict[str, Any], name: str) -> Any:
    return round(found["memory_mb"] / 1024) if name == "memory_gb" else found[name]


def _cpu() -> str:
    for line in (read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _mitigations() -> dict[str, str]:
    """Return the kernel's mitigations for processor flaws, which slow system calls down."""
    folder = Path("/sys/devices/system/cpu/vulnerabilities")
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        return {}
    told = {name: (read(str(folder / name)) or "").strip() for name in names}
    return {name: text for name, text in told.items() if text.startswith("Mitigation")}


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
