"""Kerberos realms for tests: a real KDC with its database in a folder, and servers' keys in keytabs.

Debian's krb5-kdc and krb5-admin-server are installed, or unpacked into the environment, as other servers are; the
Python module `gssapi` comes from Debian's python3-gssapi where it is not installed, for Linux has no wheel of it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from mangonel.engines.programs import WISH, Missing, find_program, installing_alone
from tools.held_port import held_port, port_of

# Seconds in which a KDC replies, on a busy machine too.
START_TIMEOUT = 60
MODULE_PACKAGES = ("python3-gssapi", "python3-decorator")


class Kdc:
    """A running KDC. Its realms trust each other as their names are listed: the first may visit the others.

    Attributes:
        realms: their names, the default one first.
        environment: what Kerberos' libraries read to find it.
        folder: for keytabs and caches.
    """

    def __init__(self, folder: Path, realms: tuple[str, ...]) -> None:
        self.folder = folder
        self.realms = realms
        # Keeps the port from other programs while the databases are made.
        self._held = held_port()
        port = port_of(self._held)
        self.environment = {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{folder / 'cache'}",
            "KRB5_CLIENT_KTNAME": str(folder / "no-client-keytab"),
            "KRB5RCACHENAME": "none:",
        }
        own = "".join(
            f" {realm} = {{\n  kdc = 127.0.0.1:{port}\n  database_name = {folder / realm}\n"
            f"  key_stash_file = {folder / realm}.stash\n  acl_file = {folder / 'acl'}\n }}\n"
            for realm in realms
        )
        (folder / "krb5.conf").write_text(
            f"[libdefaults]\n default_realm = {realms[0]}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            f" dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n[realms]\n{own}"
            f"[dbmodules]\n db_module_dir = {_database_modules()}\n"
        )
        (folder / "kdc.conf").write_text(f"[kdcdefaults]\n kdc_ports = {port}\n kdc_tcp_ports = {port}\n")
        for realm in realms:
            self._run("kdb5_util", "-r", realm, "create", "-s", "-P", "master")
        for other in realms[1:]:
            for realm in (realms[0], other):
                self._administer(realm, f"addprinc -pw trust krbtgt/{other}@{realms[0]}")
        chosen = [part for realm in realms for part in ("-r", realm)]
        self._process = subprocess.Popen(
            [find_program("krb5kdc"), "-n", *chosen],
            env=self._whole_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._wait(port)
        except BaseException:
            self.stop()
            raise

    def add_user(self, principal: str, password: str) -> None:
        """Add a user with a password."""
        self._administer(_realm(principal), f"addprinc -pw {password} {principal}")

    def add_keytab(self, principal: str, name: str) -> Path:
        """Add a principal with a random key; return the keytab file `name` with that key."""
        keytab = self.folder / name
        self._administer(_realm(principal), f"addprinc -randkey {principal}")
        self._administer(_realm(principal), f"ktadd -k {keytab} {principal}")
        return keytab

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait(START_TIMEOUT)
        self._held.close()

    def _administer(self, realm: str, query: str) -> None:
        said = self._run("kadmin.local", "-r", realm, "-q", query)
        # kadmin.local ends with 0 even when it fails.
        assert "created" in said or "added to keytab" in said, said

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [find_program(program), *arguments],
            env=self._whole_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{program} {arguments}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def _whole_environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            assert self._process.poll() is None, "the KDC ended"
            assert time.monotonic() < deadline, f"the KDC does not answer within {START_TIMEOUT} s"
            time.sleep(0.02)


@contextlib.contextmanager
def running(*realms: str) -> Iterator[Kdc]:
    """Run a KDC of these realms in a folder of its own.

    Raises:
        Missing: one of its programs cannot be had.
    """
    for program in ("krb5kdc", "kdb5_util", "kadmin.local"):
        find_program(program)
    folder = Path(tempfile.mkdtemp(prefix="mangonel-kdc-"))
    try:
        kdc = Kdc(folder, realms)
        try:
            yield kdc
        finally:
            kdc.stop()
    finally:
        shutil.rmtree(folder)


def load_gssapi() -> ModuleType:
    """Return the module `gssapi`; unpack Debian's into the environment, if installing is allowed.

    Raises:
        Missing: it cannot be had.
    """
    with contextlib.suppress(ImportError):
        return importlib.import_module("gssapi")
    home = Path(sys.prefix) / "debian" / MODULE_PACKAGES[0]
    modules = home / "usr/lib/python3/dist-packages"
    problem = f"{WISH} is not set"
    if not modules.exists() and os.environ.get(WISH):
        problem = _unpack(MODULE_PACKAGES, home)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    if (modules / f"gssapi/raw/creds{suffix}").exists():
        sys.path.append(str(modules))
        return importlib.import_module("gssapi")
    if modules.exists():
        problem = f"Debian's is not for this interpreter, whose modules end with {suffix}"
    raise Missing(
        f"the module gssapi is not installed ({problem}); with a C compiler and libkrb5-dev: pip install gssapi"
    )


def _unpack(packages: tuple[str, ...], home: Path) -> str:
    """Unpack Debian's packages without installing them; return the problem, "" on success."""
    if shutil.which("apt-get") is None:
        return "this system has no apt-get"
    home.parent.mkdir(parents=True, exist_ok=True)
    with installing_alone(), tempfile.TemporaryDirectory(dir=home.parent) as work:
        if home.exists():
            # Another worker of pytest was faster.
            return ""
        download = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *packages]
        problem = _problem(download, work)
        if problem:
            # A bare system has no package lists yet.
            problem = _problem(["apt-get", "-qq", "update"], work) or _problem(download, work)
        extract = 'for each in *.deb; do dpkg-deb --extract "$each" made || exit 1; done'
        problem = problem or _problem(["sh", "-c", extract], work)
        if problem:
            return problem
        os.rename(Path(work) / "made", home)
    return ""


def _problem(command: list[str], folder: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr or done.stdout).strip()[-300:] or command[0]


def _realm(principal: str) -> str:
    return principal.rpartition("@")[2]


def _database_modules() -> Path:
    """Return the folder of the KDC's database module, which an unpacked KDC does not find by itself."""
    for root in (Path("/usr/lib"), Path(sys.prefix) / "debian/krb5kdc/usr/lib"):
        for found in root.glob("*/krb5/plugins/kdb/db2.so"):
            return found.parent
    raise Missing("the KDC's database module db2.so is not installed; Debian's package is krb5-kdc")
