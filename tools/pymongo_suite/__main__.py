"""`python tools/pymongo_suite`: fetch PyMongo's tests, run them on PyMongo and on this driver, compare.

Writes nothing into the repository except, with `--write`, the page of figures and failures.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOOLS))

import pytest  # noqa: E402
from pymongo_source import fetch_archive  # noqa: E402

from mangonel import server  # noqa: E402
from pymongo_suite import report  # noqa: E402
from pymongo_suite.instrument import instrument, settings  # noqa: E402

# Seconds for one test; the suite's own helpers wait up to ten for a condition.
TEST_TIMEOUT = 40
# Seconds for one file; a file with several hundred tests takes about 250 on a loaded machine.
FILE_TIMEOUT = 300
# Seconds for slower files, and for each of their tests: on PyMongo, one waits 20 for a mongocryptd.
LONG_FILES = {"test_encryption.py": (3600, 120)}
# Files that share a process, since starting one takes some seconds.
BATCH = 6


def cache_folder() -> Path:
    """Return the folder of the tests: MANGONEL_PYMONGO_SUITE, or one in the user's cache."""
    named = os.environ.get("MANGONEL_PYMONGO_SUITE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mangonel" / "pymongo-suite"


def pinned_version() -> str:
    """Return the version of PyMongo that this project is compared with."""
    from importlib.metadata import version

    return version("pymongo")


def fetch(cache: Path, version: str) -> Path:
    """Return the folder of a version's instrumented tests; download and instrument them if it does not exist."""
    tree = cache / version
    cache.mkdir(parents=True, exist_ok=True)
    lock = (cache / ".lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    # A changed `instrument.py` writes different files.
    mark = tree / ".instrument"
    source = (Path(__file__).parent / "instrument.py").read_text(encoding="utf-8")
    if mark.exists() and mark.read_text(encoding="utf-8") == source:
        return tree
    archive = fetch_archive(cache, version)
    shutil.rmtree(tree, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=cache) as place, tarfile.open(archive) as opened:
        opened.extractall(place, filter="data")
        root = Path(place) / f"pymongo-{version}"
        instrument(root / "test", root / "doc/api", root)
        tree.mkdir()
        (root / "test").rename(tree / "test")
        (tree / "pytest.ini").write_text(settings(root / "pyproject.toml"), encoding="utf-8")
    mark.write_text(source, encoding="utf-8")
    return tree


def results_of(tree: Path, driver: str) -> Path:
    """Return the file with the results of a driver; instrumenting the tests again removes it."""
    return tree / f"{driver}.jsonl"


def run(
    tree: Path,
    driver: str,
    files: list[str],
    results: Path,
    arguments: list[str],
    wanted: set[str] | None = None,
) -> None:
    """Run test files, some of them in one process, one process after another, on a fresh replica set of one.

    Args:
        tree: the instrumented tests.
        driver: "pymongo" or "mangonel".
        files: the test files.
        results: stores the result of each test; a run replaces the results of its files.
        arguments: arguments for pytest.
        wanted: the ids to run. None: all.
    """
    part = results.with_suffix(f".{os.getpid()}.part")
    with server.start(replica_set=1, set_parameters={"enableTestCommands": 1}) as deployment:
        member = deployment.members[0]
        # A bulk write of several times 16 MB exceeds the smallest cache if a checkpoint is late.
        cache = {"setParameter": 1, "wiredTigerEngineRuntimeConfig": "cache_size=1GB"}
        member.run_command(cache, timeout=30.0)
        environment = os.environ | {
            "DB_IP": member.host,
            "DB_PORT": str(member.port),
            "PYMONGO_SUITE_DRIVER": driver,
            "PYMONGO_SUITE_RESULTS": str(part),
            "PYTHONPATH": os.pathsep.join([str(TOOLS.parent / "python"), str(TOOLS), str(tree)]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if wanted is not None:
            names = results.with_suffix(f".{os.getpid()}.wanted")
            names.write_text(json.dumps(sorted(wanted)), encoding="utf-8")
            environment["PYMONGO_SUITE_WANTED"] = str(names)
        waiting = [files[start : start + BATCH] for start in range(0, len(files), BATCH)]
        while waiting:
            batch = waiting.pop(0)
            begun = time.monotonic()
            part.unlink(missing_ok=True)
            command = [sys.executable, "-m", "pytest", "-p", "pymongo_suite.plugin", "-p", "no:cacheprovider"]
            command += [
                "-c",
                "pytest.ini",
                "--rootdir",
                ".",
                "-q",
                "--no-header",
                "--continue-on-collection-errors",
            ]
            limits = [LONG_FILES.get(Path(file).name, (FILE_TIMEOUT, TEST_TIMEOUT)) for file in batch]
            limit = sum(file for file, _ in limits)
            command += ["--timeout", str(max(test for _, test in limits)), *batch, *arguments]
            status = _within(command, tree, environment, part.with_suffix(".log"), limit)
            is_cut = status < 0 or status == pytest.ExitCode.INTERNAL_ERROR
            if is_cut and len(batch) > 1:
                # One of them crashed the process: run each on its own.
                waiting[:0] = [[file] for file in batch]
                continue
            if is_cut:
                print(f"{driver} {batch[0]}: ended before its last test, limit {limit} s", flush=True)
            if status in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR):
                # pytest itself failed before running them.
                tail = part.with_suffix(".log").read_text(encoding="utf-8")[-2000:]
                raise SystemExit(f"{driver}: {' '.join(batch)} did not run, status {status}:\n{tail}")
            report.merge(results, part, batch, partly=bool(arguments))
            seconds = time.monotonic() - begun
            print(
                f"{driver} {batch[0]} and {len(batch) - 1} more: status {status}, {seconds:.0f} s", flush=True
            )
        part.unlink(missing_ok=True)


def _within(command: list[str], folder: Path, environment: dict[str, str], log: Path, seconds: float) -> int:
    """Run a command with its children; return its status, negative if it was killed or took too long."""
    with log.open("a", encoding="utf-8") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return -1
        finally:
            # Tests of forks leave child processes behind.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def main() -> int:
    """Run the tests that the command line selects."""
    parser = argparse.ArgumentParser(prog="pymongo-suite", description=__doc__)
    parser.add_argument(
        "files", nargs="*", help="names of test files, as `test_cursor` or `asynchronous/test_cursor`"
    )
    parser.add_argument("--peer", action="store_true", help="run PyMongo again, whose results are kept")
    parser.add_argument("--only", choices=["mangonel", "pymongo"], help="run this driver only; no comparison")
    parser.add_argument("-k", dest="expression", help="pytest's -k")
    parser.add_argument("--report", action="store_true", help="compare the results of the last runs")
    parser.add_argument("--write", action="store_true", help="write docs/dev/pymongo-suite.md")
    parser.add_argument(
        "--private", action="store_true", help="run on this driver what does not count as well"
    )
    chosen = parser.parse_args()
    cache, version = cache_folder(), pinned_version()
    tree = fetch(cache, version)
    every = sorted(
        str(path.relative_to(tree))
        for path in (tree / "test").rglob("test_*.py")
        if path.parent.name in ("test", "asynchronous") and path.stem not in report.LEFT_OUT
    )
    files = [
        file
        for file in every
        if not chosen.files or file.removeprefix("test/").removesuffix(".py") in chosen.files
    ]
    arguments = ["-k", chosen.expression] if chosen.expression else []
    for driver in ("pymongo", "mangonel"):
        whole = results_of(tree, driver)
        if chosen.report or (chosen.only and driver != chosen.only):
            continue
        wanted = files
        if driver == "pymongo" and not chosen.peer and not chosen.only:
            known = report.files_of(whole)
            wanted = [file for file in files if file not in known]
        counting = None
        if driver == "mangonel" and not chosen.private:
            # A test that does not count on PyMongo does not count here, and would mostly wait for nothing.
            counting = report.counting(results_of(tree, "pymongo"))
            with_some = {id.partition("::")[0] for id in counting}
            wanted = [file for file in files if file in with_some]
        if wanted:
            run(tree, driver, wanted, whole, arguments, counting if driver == "mangonel" else None)
    return report.compare(
        results_of(tree, "pymongo"), results_of(tree, "mangonel"), version, files, write=chosen.write
    )


if __name__ == "__main__":
    raise SystemExit(main())
