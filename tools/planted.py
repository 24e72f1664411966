"""Plant faults into a copy of the core, one at a time; the simulation must find each in a minute of processor time.

python tools/planted.py              # all, about half a minute each on two cores
python tools/planted.py dirty queue  # those whose names have one of these words
python tools/planted.py --check      # only that each fault still has its place
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "crates/simulation/planted.toml"
COPY = ROOT / "target/planted/source"
COPIED = ("Cargo.toml", "Cargo.lock", "crates", "tools/instructions")
PLANTED = ROOT / "target/planted/build/debug/simulate"
# The simulation of the unchanged core: a seed that fails there too has not found the planted fault.
SOUND = ROOT / "target/planted/sound"
# Seconds of processor time.
SECONDS = 60
# Quick to compile: each fault compiles the core again.
PROFILE = {"CARGO_PROFILE_TEST_DEBUG": "0", "CARGO_INCREMENTAL": "1"}


def load() -> list[dict[str, str]]:
    """Return the faults, each with `name`, `file`, `find` and `put`; exit if the text to replace is missing."""
    faults: list[dict[str, str]] = tomllib.loads(LIST.read_text())["fault"]
    lost = [fault for fault in faults if source(fault).count(fault["find"]) != 1]
    for fault in lost:
        count = source(fault).count(fault["find"])
        print(
            f"{fault['name']}: expected `find` once in {fault['file']}, got it {count} times; change it in {LIST}"
        )
    if lost:
        raise SystemExit(1)
    return faults


def source(fault: dict[str, str]) -> str:
    """Return the text of the file that a fault is planted into."""
    return (ROOT / "crates/proto/src" / fault["file"]).read_text()


def renew(origin: str, target: str) -> None:
    """Copy a file if it differs, so that its time tells cargo what changed, even after an interrupted run."""
    if not Path(target).exists() or Path(target).read_bytes() != Path(origin).read_bytes():
        shutil.copyfile(origin, target)


def copy() -> None:
    """Make the copy of the workspace for the faults; unchanged files keep their time."""
    for name in COPIED:
        target = COPY / name
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, dirs_exist_ok=True, copy_function=renew)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            renew(str(ROOT / name), str(target))


def build() -> str:
    """Compile the simulation in the copy, to `PLANTED`; return the error."""
    command = ["cargo", "build", "--offline", "--quiet", "-p", "mangonel-simulation", "--profile", "test"]
    environment = {**os.environ, **PROFILE, "CARGO_TARGET_DIR": str(ROOT / "target/planted/build")}
    done = subprocess.run(
        [*command, "--bin", "simulate"], cwd=COPY, env=environment, capture_output=True, text=True
    )
    return done.stderr if done.returncode else ""


def search() -> tuple[str | None, float, str | None]:
    """Play new seeds until one fails or the processor time is used up.

    Returns the output that reports the failure, the processor time, and the output of any other end.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # A limit of processor time: wall-clock time means little on a busy machine.
    process = subprocess.Popen(
        [PLANTED, "--seconds", "86400"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1)),
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        found = next((line for line in process.stdout if " failed: " in line), None)
        if found is not None:
            # The simulation would shrink the run.
            process.kill()
        error = process.stderr.read()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return found, seconds, None if process.returncode == -signal.SIGXCPU else error


def play(fault: dict[str, str]) -> tuple[bool, str]:
    """Plant a fault and play; returns whether it was found, and how."""
    place = COPY / "crates/proto/src" / fault["file"]
    place.write_text(source(fault).replace(fault["find"], fault["put"]))
    try:
        problem = build()
        if problem:
            return False, "does not compile: " + problem.strip().splitlines()[0]
        found, seconds, error = search()
        if found is None and error is None:
            return False, f"not found in {SECONDS} s"
        if found is None:
            return True, f"{seconds:.1f} s: {(error or '').strip()[:110]}"
        seed, how = found.removeprefix("seed ").split(" failed: ", 1)
        if subprocess.run([SOUND, "--seed", seed], capture_output=True).returncode != 0:
            return False, f"seed {seed} fails without it, too: mend that first"
        return True, f"{seconds:.1f} s: {how.strip()[:110]}"
    finally:
        shutil.copy2(ROOT / "crates/proto/src" / fault["file"], place)
        os.utime(place)


def main(arguments: list[str]) -> int:
    """Run according to the arguments; return 1 if a fault was not found."""
    faults = load()
    if arguments == ["--check"]:
        return 0
    chosen = [fault for fault in faults if not arguments or any(word in fault["name"] for word in arguments)]
    copy()
    problem = build()
    if problem:
        print(f"the core as it is does not compile: {problem.strip().splitlines()[0]}")
        return 1
    shutil.copy2(PLANTED, SOUND)
    missed = 0
    for fault in chosen:
        is_found, how = play(fault)
        missed += not is_found
        print(f"{'found ' if is_found else 'MISSED'} {fault['name']}: {how}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} planted faults found")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
