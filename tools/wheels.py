"""Build the wheels of all systems on this one: `make wheels`, or `tools/wheels.py manylinux-x86_64 --python 3.13`.

zig is the C compiler and linker, except for Windows, where it is MinGW's gcc (apt-get install gcc-mingw-w64-x86-64). So
neither containers nor other machines are needed. Wheels that run on this machine are compiled with a profile of the
driver's usual work (tools/training.py), which needs `rustup component add llvm-tools`; the others are compiled without
one. Each wheel is inspected: its name, the C library symbols that it needs, its contents. tools/smoke.py, on a machine
of its kind, tests whether it runs.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
MINORS = ("3.11", "3.12", "3.13", "3.14", "3.15")


class Target(NamedTuple):
    """A kind of wheel.

    Args:
        triple: Rust's name of the target.
        policy: auditwheel's name of the platform policy; empty if it knows none.
        tag: the platform tag in the wheel's name.
    """

    triple: str
    policy: str
    tag: str


TARGETS = {
    "manylinux-x86_64": Target("x86_64-unknown-linux-gnu", "manylinux_2_17", "manylinux_2_17_x86_64"),
    "manylinux-aarch64": Target("aarch64-unknown-linux-gnu", "manylinux_2_17", "manylinux_2_17_aarch64"),
    "musllinux-x86_64": Target("x86_64-unknown-linux-musl", "musllinux_1_2", "musllinux_1_2_x86_64"),
    "musllinux-aarch64": Target("aarch64-unknown-linux-musl", "musllinux_1_2", "musllinux_1_2_aarch64"),
    "macos": Target("universal2-apple-darwin", "", "universal2"),
    "windows": Target("x86_64-pc-windows-gnu", "", "win_amd64"),
}

# Compile code that training does not reach for speed too, not for size.
FOR_SPEED = "-Cllvm-args=-pgso=false"
UNKNOWN = "no profile data available"
MINGW = "x86_64-w64-mingw32"
# Libraries that every Windows from 10 on has, or that belong to Python.
WINDOWS_LIBRARIES = re.compile(
    r"(?i)(api-ms-win-.*|bcryptprimitives|kernel32|msvcrt|ntdll|python3\d+|userenv|ws2_32)\.dll"
)

# Files that no wheel may contain, and files that each must contain.
FORBIDDEN = re.compile(r"\.(rs|orig|pyc)$|__pycache__|^mangonel/(lab|engines|demo)/")
NEEDED = ("/py.typed", "/THIRD-PARTY-LICENSES.md", "/mangonel.cdx.json", "/entry_points.txt")


class Problem(Exception):
    """A wheel could not be built, or failed its inspection."""


def main() -> int:
    """Build the requested wheels; return 1 if one failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)} (default: all)"
    )
    parser.add_argument(
        "--python", action="append", metavar="X.Y", help="of this version (default: all found)"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder for the wheels")
    options = parser.parse_args()
    if unknown := set(options.targets) - TARGETS.keys():
        parser.error(f"expected targets of {', '.join(TARGETS)}, got {', '.join(sorted(unknown))}")
    interpreters = dict(find_interpreters(options.python or MINORS))
    is_good = True
    for minor in options.python or MINORS:
        if minor not in interpreters:
            # Without headers, the wheel would silently be built without the dict layout, half as fast.
            print(f"{minor}: not built, no interpreter of it with headers is on this machine")
            is_good = is_good and not options.python
            continue
        for name in options.targets or TARGETS:
            try:
                wheel = make(TARGETS[name], minor, interpreters[minor], options.out.resolve())
                print(
                    f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, {'; '.join(look_at(wheel, TARGETS[name]))}"
                )
            except Problem as problem:
                print(f"{name} {minor}: {problem}")
                is_good = False
    return 0 if is_good else 1


class Interpreter(NamedTuple):
    """A version of CPython on this machine.

    Args:
        path: its program.
        headers: the folder of its headers.
    """

    path: str
    headers: str


def find_interpreters(minors: list[str] | tuple[str, ...]) -> Iterator[tuple[str, Interpreter]]:
    """Yield the versions whose interpreter has headers here, with that interpreter."""
    ask = "import os, sysconfig; f = sysconfig.get_path('include'); print(f if os.path.exists(f + '/Python.h') else '')"
    for minor in minors:
        installed = sorted(Path.home().glob(f".pyenv/versions/{minor}.*/bin/python3"))
        for interpreter in [shutil.which(f"python{minor}"), *map(str, installed)]:
            if interpreter is None:
                continue
            # pyenv has a command for every version, and refuses those that are not selected.
            said = subprocess.run([interpreter, "-c", ask], capture_output=True, text=True, check=False)
            if said.returncode == 0 and said.stdout.strip():
                yield minor, Interpreter(interpreter, said.stdout.strip())
                break


def make(target: Target, minor: str, interpreter: Interpreter, out: Path) -> Path:
    """Return the new wheel, compiled with a profile if it runs here."""
    if not target.triple.endswith("linux-gnu") or target.triple != host():
        return build(target, minor, interpreter.headers, out)
    with tempfile.TemporaryDirectory() as folder:
        profile = train(target, minor, interpreter, Path(folder))
        flags = f"-Cprofile-use={profile} {FOR_SPEED} -Cllvm-args=-pgo-warn-missing-function"
        return build(target, minor, interpreter.headers, out, RUSTFLAGS=flags)


def host() -> str:
    """Return Rust's name of this machine."""
    said = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    return said.partition("host: ")[2].splitlines()[0]


def train(target: Target, minor: str, interpreter: Interpreter, folder: Path) -> Path:
    """Return the profile of the usual work, from a build that counts its branches.

    zig cannot link such a build, so the system's compiler does. Everything else is as for the wheel: the profile finds
    a function by its name, which depends on how cargo is called.
    """
    root = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout
    merge = Path(root.strip(), "lib/rustlib", target.triple, "bin/llvm-profdata")
    if not merge.exists():
        raise Problem(f"expected {merge}, which is not there: rustup component add llvm-tools")
    linker = f"CARGO_TARGET_{target.triple.upper().replace('-', '_')}_LINKER"
    environment = {"RUSTFLAGS": f"-Cprofile-generate {FOR_SPEED}", linker: "cc"}
    counting = target._replace(policy="linux", tag="linux")
    wheel = build(counting, minor, interpreter.headers, folder, **environment)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
    counts, profile = folder / "counts", folder / "usual.profdata"
    where = {"PYTHONPATH": str(folder / "unpacked"), "LLVM_PROFILE_FILE": f"{counts}/%p.profraw"}
    run(interpreter.path, "tools/training.py", **where)
    run(str(merge), "merge", "-o", str(profile), str(counts))
    return profile


def build(target: Target, minor: str, headers: str, out: Path, **environment: str) -> Path:
    """Return the new wheel."""
    out.mkdir(parents=True, exist_ok=True)
    abi = "cp" + minor.replace(".", "")
    command = ["maturin", "build", "--release", "--locked", "--strip", "--target", target.triple]
    command += ["--interpreter", f"python{minor}", "--out", str(out)]
    if "windows" not in target.triple:
        command += ["--zig"]
    elif shutil.which(f"{MINGW}-gcc") is None:
        raise Problem(f"expected {MINGW}-gcc, which is not installed: apt-get install gcc-mingw-w64-x86-64")
    if target.policy:
        command += ["--compatibility", target.policy]
    said = run(*command, MANGONEL_PYTHON_HEADERS=headers, **environment)
    if unknown := said.count(UNKNOWN):
        raise Problem(f"expected the profile to name all functions, got one that lacks {unknown}")
    if "dicts go through the C API" in said:
        raise Problem(f"expected the headers in {headers} to have the known dict layout, got others")
    wheels = [path for path in out.glob(f"*-{abi}-{abi}-*.whl") if target.tag in path.stem]
    if len(wheels) != 1:
        raise Problem(f"expected one wheel *-{abi}-{abi}-*{target.tag}.whl, got {len(wheels)}")
    if target.policy.startswith("musllinux"):
        name_musl(wheels[0], target)
    return wheels[0]


def name_musl(wheel: Path, target: Target) -> None:
    """Give musl its installed name: zig's linker calls every C library `libc.so`."""
    processor = target.triple.partition("-")[0]
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "wheel", "unpack", str(wheel), "-d", folder)
        (unpacked,) = Path(folder).iterdir()
        (module,) = unpacked.glob("mangonel/_core*.so")
        run("patchelf", "--replace-needed", "libc.so", f"libc.musl-{processor}.so.1", str(module))
        run(sys.executable, "-m", "wheel", "pack", str(unpacked), "-d", str(wheel.parent))


def run(*command: str, **environment: str) -> str:
    """Run a program, preferably one beside this interpreter; return its error output.

    Raises:
        Problem: it failed.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Problem(f"{command[0]}: {done.stdout}{done.stderr}"[-2000:])
    return done.stderr


def look_at(wheel: Path, target: Target) -> Iterator[str]:
    """Yield the checks that passed.

    Raises:
        Problem: a check failed.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    if wrong := [name for name in names if FORBIDDEN.search(name)]:
        raise Problem(f"expected the stack alone in the wheel, got {wrong[0]} and {len(wrong) - 1} more")
    if missing := [part for part in NEEDED if not any(name.endswith(part) for name in names)]:
        raise Problem(f"expected {missing[0]} in the wheel, got none")
    modules = [name for name in names if re.search(r"\.(so|pyd|dylib)$", name)]
    if len(modules) != 1:
        raise Problem(f"expected one extension module in the wheel, got {len(modules)}")
    yield f"{len(names)} files"
    if "windows" in target.triple:
        yield from look_at_libraries(wheel, modules[0])
    if not target.policy:
        return
    done = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", str(wheel)], capture_output=True, text=True, check=False
    )
    said = " ".join(done.stdout.split())
    found = re.search(r'consistent with the following platform tag: "(\w+)"', said)
    if done.returncode or found is None:
        raise Problem(f"auditwheel: {said or done.stderr}")
    # A lower version of the C library than promised is acceptable; another C library is not.
    promised, confirmed = policy_of(target.policy), policy_of(found[1])
    if confirmed.family != promised.family or confirmed.version > promised.version:
        raise Problem(f"expected {target.policy}, auditwheel says {found[1]}")
    yield f"auditwheel: {found[1]}"


def look_at_libraries(wheel: Path, module: str) -> Iterator[str]:
    """Yield that Windows has the libraries that the module needs.

    Raises:
        Problem: it lacks one.
    """
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        command = [f"{MINGW}-objdump", "--private-headers", archive.extract(module, folder)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    wanted = re.findall(r"DLL Name: (\S+)", said)
    if foreign := [name for name in wanted if not WINDOWS_LIBRARIES.fullmatch(name)]:
        raise Problem(f"expected Windows' own libraries, got {', '.join(foreign)}")
    yield f"{len(wanted)} libraries, all of Windows or Python"


class Policy(NamedTuple):
    """The platform promise of a wheel.

    Args:
        family: the C library, such as "manylinux"; "linux" promises none.
        version: the version of that library; empty if none is promised.
    """

    family: str
    version: tuple[int, ...]


def policy_of(tag: str) -> Policy:
    """Return the promise of a policy, named with or without a processor."""
    named = re.match(r"(manylinux|musllinux)_(\d+)_(\d+)(?:_|$)", tag)
    if named is None:
        return Policy(tag.partition("_")[0], ())
    return Policy(named[1], (int(named[2]), int(named[3])))


if __name__ == "__main__":
    raise SystemExit(main())
