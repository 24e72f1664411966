"""Which libraries' tests are run, and what each of them needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Every environment has the first two and the last; PyMongo is installed whatever a library allows.
RUNNER = ("pytest", "pytest-timeout", "pytz")
PYMONGO = "pymongo==4.20.0"


@dataclass(frozen=True)
class Suite:
    """The tests of one library.

    Args:
        requirement: the library, pinned to a version whose source distribution carries its tests.
        tests: their folder or file in the source distribution; for a program, its labels.
        needs: what they import besides.
        removed: a folder of the source that would hide the installed package with its compiled modules.
        options: further options of pytest or of the program.
        replica_set: whether the server is a replica set of one, for transactions.
        variables: environment variables of the run.
        added: path in the source -> file of `tools/library_suites/added` that is put there.
        host: a package whose source distribution receives the folders of `tests`, and runs them.
        program: the host's own test program, in place of pytest.
        left_out: folders of `tests` that the program is not asked to run.
    """

    requirement: str
    tests: str
    needs: tuple[str, ...] = ()
    removed: str = ""
    options: tuple[str, ...] = ()
    replica_set: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    added: Mapping[str, str] = field(default_factory=dict)
    host: str = ""
    program: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The library's version."""
        return self.requirement.partition("==")[2]


SUITES = {
    "apscheduler": Suite(
        "apscheduler==3.11.3",
        "tests/test_jobstores.py",
        # The stores of other databases skip themselves.
        ("anyio", "sqlalchemy"),
        options=("-k", "mongodb"),
    ),
    "flask-pymongo": Suite(
        # 3.0.1 carries no tests.
        "flask-pymongo==2.3.0",
        "flask_pymongo/tests",
        ("flask==2.2.5", "werkzeug==2.2.3", "six==1.17.0"),
    ),
    "kombu": Suite("kombu==5.7.0", "t/integration/test_mongodb.py", ("pytest-rerunfailures",)),
    "log4mongo": Suite("log4mongo==1.8.1", "test"),
    "ming": Suite("ming==0.17.3", "ming/tests", ("webob", "webtest", "formencode", "pymongocrypt==1.21.2")),
    "mongoengine": Suite(
        # The twelve files at the top of its tests are carried, without the folders below it and without the
        # base class of two of the files.
        "mongoengine==0.29.3",
        "tests",
        ("blinker", "pillow", "mongomock==4.3.0"),
        # Looks for the changelog of the repository.
        options=("--ignore", "tests/test_changelog_consistency.py"),
        replica_set=True,
        added={"tests/utils.py": "mongoengine_utils.py", "tests/__init__.py": "empty.py"},
    ),
    "mongomock": Suite("mongomock==4.3.0", "tests", ("packaging",)),
    "pymongoarrow": Suite("pymongoarrow==1.15.0", "test", ("pandas", "polars", "pyarrow"), "pymongoarrow"),
    "umongo": Suite("umongo==4.0.0", "tests", ("motor==3.7.1", "mongomock==4.3.0")),
}
