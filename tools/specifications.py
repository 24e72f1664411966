"""Lay out the official specification cases that PyMongo's source distribution carries, for everyone who runs the tests.

    python tools/specifications.py build/specifications

The layout is that of the specifications' own repository, which the tests read. PyMongo's copies lack some files; a few
files are PyMongo's own and are left out. Does nothing if the folder has the pinned version already. Without a network
it writes the reason to NAME.txt beside the folder, and exits with 0: the tests' last lines repeat the reason.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).resolve().parent))

from pymongo_source import NotFetched, fetch_archive, pinned_version

# Names the origin, inside the folder. The published cases have no such file.
ORIGIN = "ORIGIN.txt"

# Folders of PyMongo's tests, and where the specifications have the same.
FOLDERS = {
    "auth": "auth/tests",
    "bson_binary_vector": "bson-binary-vector/tests",
    "bson_corpus": "bson-corpus/tests",
    "causal_consistency": "causal-consistency/tests",
    "change_streams": "change-streams/tests",
    "client-backpressure": "client-backpressure/tests",
    "client-side-encryption/corpus": "client-side-encryption/corpus",
    "client-side-encryption/etc": "client-side-encryption/etc",
    "client-side-encryption/external": "client-side-encryption/external",
    "client-side-encryption/limits": "client-side-encryption/limits",
    "client-side-encryption/spec": "client-side-encryption/tests",
    "collection_management": "collection-management/tests",
    "command_logging": "command-logging-and-monitoring/tests/logging",
    "command_monitoring": "command-logging-and-monitoring/tests/monitoring",
    "connection_logging": "connection-monitoring-and-pooling/tests/logging",
    "connection_monitoring": "connection-monitoring-and-pooling/tests/cmap-format",
    "connection_string/test": "connection-string/tests",
    "crud": "crud/tests",
    "csot": "client-side-operations-timeout/tests",
    "discovery_and_monitoring": "server-discovery-and-monitoring/tests",
    "gridfs": "gridfs/tests",
    "handshake": "mongodb-handshake/tests",
    "index_management": "index-management/tests",
    "load_balancer": "load-balancers/tests",
    "max_staleness": "max-staleness/tests",
    "read_write_concern": "read-write-concern/tests",
    "retryable_reads": "retryable-reads/tests",
    "retryable_writes": "retryable-writes/tests",
    "run_command": "run-command/tests",
    "sdam_monitoring": "server-discovery-and-monitoring/tests/monitoring",
    "server_selection": "server-selection/tests",
    "server_selection_logging": "server-selection/tests/logging",
    "sessions": "sessions/tests",
    "srv_seedlist": "initial-dns-seedlist-discovery/tests",
    "transactions": "transactions/tests",
    "transactions-convenient-api": "transactions-convenient-api/tests",
    "unified-test-format": "unified-test-format/tests",
    "uri_options": "uri-options/tests",
    "versioned-api": "versioned-api/tests",
}

# Cases that PyMongo changed for itself: the order of two events, the level of a message.
CHANGED = (
    "connection_monitoring/pool-create-min-size-error.json",
    "server_selection_logging/operation-id.json",
    "server_selection_logging/replica-set.json",
    "server_selection_logging/sharded.json",
    "server_selection_logging/standalone.json",
)
# Cases that cannot be played with multiplied times: they compare a limit with a round trip, which is not multiplied.
TIMED = ("csot/command-execution.json", "csot/runCursorCommand.json")
LEFT_OUT = frozenset((*CHANGED, *TIMED))


def place_of(name: str) -> str | None:
    """Return where a file of PyMongo's tests belongs; None if it is left out."""
    path = PurePosixPath(name)
    if path.suffix != ".json" or name in LEFT_OUT:
        return None
    for folder in path.parents:
        if (target := FOLDERS.get(str(folder))) is not None:
            return f"{target}/{path.relative_to(folder)}"
    return None


def lay_out(archive: Path, folder: Path, version: str) -> int:
    """Write the cases of an archive into a folder, all or none; return how many files it has."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with tempfile.TemporaryDirectory(dir=folder.parent) as name, tarfile.open(archive) as opened:
        work = Path(name) / folder.name
        for member in opened:
            _, _, below = member.name.partition("/test/")
            place = place_of(below) if below and member.isfile() else None
            content = opened.extractfile(member) if place is not None else None
            if place is None or content is None:
                continue
            target = work / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())
            count += 1
        origin = {"pymongo": version, "files": count, "layout": layout()}
        (work / ORIGIN).write_text(json.dumps(origin) + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        work.rename(folder)
    return count


def is_current(folder: Path, version: str) -> bool:
    """Return whether a folder has the cases of this version in the current layout."""
    try:
        origin = json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return origin.get("pymongo") == version and origin.get("layout") == layout()


def layout() -> str:
    """Return a digest of the layout."""
    return hashlib.sha256(json.dumps([FOLDERS, sorted(LEFT_OUT)]).encode()).hexdigest()[:16]


def main() -> int:
    """Lay the cases out; return an exit status, which is 0 even if they cannot be fetched."""
    folder = Path(sys.argv[1])
    told = folder.with_suffix(".txt")
    try:
        version = pinned_version()
        if not is_current(folder, version):
            count = lay_out(fetch_archive(folder.parent, version), folder, version)
            print(f"specifications: {count} files of PyMongo {version} in {folder}")
        told.unlink(missing_ok=True)
    except NotFetched as reason:
        folder.parent.mkdir(parents=True, exist_ok=True)
        told.write_text(f"{reason}\n", encoding="utf-8")
        print(f"specifications: not fetched, {reason}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
