"""The client metadata of the handshake: driver, platform, system, environment.

Spec: mongodb-handshake. Knows no connection; reads the environment on each call.
"""

from __future__ import annotations

import os
import sys

from mangonel._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from mangonel.driver_info import DriverInfo

# The server refuses a longer document.
MAX_METADATA_SIZE = 512

# Function services: name, variables that identify it, and variables to report as (field, variable, type).
_FAAS: tuple[tuple[str, tuple[str, ...], tuple[tuple[str, str, type], ...]], ...] = (
    (
        "aws.lambda",
        ("AWS_LAMBDA_RUNTIME_API",),
        (("region", "AWS_REGION", str), ("memory_mb", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", int)),
    ),
    ("azure.func", ("FUNCTIONS_WORKER_RUNTIME",), ()),
    (
        "gcp.func",
        ("K_SERVICE", "FUNCTION_NAME"),
        (
            ("region", "FUNCTION_REGION", str),
            ("memory_mb", "FUNCTION_MEMORY_MB", int),
            ("timeout_sec", "FUNCTION_TIMEOUT_SEC", int),
        ),
    ),
    ("vercel", ("VERCEL",), (("region", "VERCEL_REGION", str),)),
)

_DOCKER_MARK = "/.dockerenv"

_IMPLEMENTATIONS = {"cpython": "CPython", "pypy": "PyPy", "graalpy": "GraalPy"}


def client_metadata(
    app_name: str | None = None, drivers: Iterable[DriverInfo] = (), is_async: bool = False
) -> dict[str, Any]:
    """Return the `client` document of the first hello on a connection, cut to 512 bytes.

    Args:
        app_name: the client's `appname` option.
        drivers: libraries that wrap this driver, in the order in which they were added.
        is_async: whether the client is asynchronous.
    """
    names = ["mangonel", *(["async"] if is_async else [])]
    versions = [__version__, *([""] if is_async else [])]
    platforms = [_platform()]
    for driver in drivers:
        names.append(driver.name or "")
        versions.append(driver.version or "")
        if driver.platform:
            platforms.append(driver.platform)
    metadata: dict[str, Any] = {"application": {"name": app_name}} if app_name else {}
    metadata["driver"] = {"name": "|".join(names), "version": "|".join(versions)}
    metadata["os"] = _operating_system()
    metadata["platform"] = "|".join(platforms)
    if env := environment():
        metadata["env"] = env
    return truncate(metadata)


def is_faas() -> bool:
    """Return whether this process runs in a function service, where a client should not connect early."""
    return bool(_faas_services())


def environment() -> dict[str, Any]:
    """Return the `env` document: function service and container, if there are any."""
    env: dict[str, Any] = {}
    services = _faas_services()
    # If there are several, some were inherited or faked, so none is reported.
    if len(services) == 1:
        name, fields = services[0]
        env["name"] = name
        for field, variable, kind in fields:
            if (value := _environment_value(variable, kind)) is not None:
                env[field] = value
    container = {}
    if os.path.exists(_DOCKER_MARK):
        container["runtime"] = "docker"
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        container["orchestrator"] = "kubernetes"
    if container:
        env["container"] = container
    return env


def truncate(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the document cut to 512 bytes of BSON, in the specification's order."""
    cut = {key: dict(value) if isinstance(value, dict) else value for key, value in metadata.items()}

    def excess() -> int:
        return _bson_size(cut) - MAX_METADATA_SIZE

    if excess() > 0 and "env" in cut:
        cut["env"] = {key: value for key, value in cut["env"].items() if key == "name"}
    if excess() > 0 and "os" in cut:
        cut["os"] = {"type": cut["os"]["type"]}
    if excess() > 0:
        cut.pop("env", None)
    if (over := excess()) > 0:
        cut["platform"] = _cut_text(str(cut["platform"]), over)
        if not cut["platform"]:
            del cut["platform"]
    # Wrapping libraries are removed last, the newest first, together with their versions.
    names, versions = (cut["driver"][key].split("|") for key in ("name", "version"))
    while excess() > 0 and len(names) > 1:
        names.pop()
        versions.pop()
        cut["driver"] = {"name": "|".join(names), "version": "|".join(versions)}
    return cut


def _faas_services() -> list[tuple[str, tuple[tuple[str, str, type], ...]]]:
    found = []
    for name, variables, fields in _FAAS:
        in_lambda = name == "aws.lambda" and os.environ.get("AWS_EXECUTION_ENV", "").startswith("AWS_Lambda_")
        if in_lambda or any(os.environ.get(variable) for variable in variables):
            found.append((name, fields))
    # Vercel runs on Lambda, and the specification gives it precedence.
    if any(name == "vercel" for name, _ in found):
        found = [service for service in found if service[0] != "aws.lambda"]
    return found


def _environment_value(variable: str, kind: type) -> Any:
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        return kind(text)
    except ValueError:
        return None


def _platform() -> str:
    # `platform` would return the same, but importing it takes milliseconds.
    name = sys.implementation.name
    return f"{_IMPLEMENTATIONS.get(name, name)} {'.'.join(map(str, sys.version_info))}"


def _operating_system() -> dict[str, str]:
    if sys.platform == "win32":
        version = sys.getwindowsversion()
        return {
            "type": "Windows",
            "name": "Windows",
            "architecture": os.environ.get("PROCESSOR_ARCHITECTURE", ""),
            "version": f"{version.major}.{version.minor}.{version.build}-SP{version.service_pack_major}",
        }
    system = os.uname()
    release = system.release
    if sys.platform == "darwin":
        import platform

        # The version that users know, not the kernel's.
        release = platform.mac_ver()[0] or release
    return {
        "type": system.sysname,
        "name": system.sysname,
        "architecture": system.machine,
        "version": release,
    }


def _cut_text(text: str, excess: int) -> str:
    data = text.encode()
    return data[: max(0, len(data) - excess)].decode(errors="ignore")


def _bson_size(value: Any) -> int:
    """Return the size of a value of this module as BSON: a document, a string or a small integer."""
    if isinstance(value, dict):
        # Length, then type byte, name and content of each element, then the terminator.
        return 5 + sum(2 + len(key.encode()) + _bson_size(item) for key, item in value.items())
    if isinstance(value, str):
        return 5 + len(value.encode())
    return 4 if -(2**31) <= value < 2**31 else 8
