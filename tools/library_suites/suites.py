"""Which libraries' tests are run, and what each of them needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Every environment has the first two and the last; PyMongo's version is fixed whatever a library allows.
RUNNER = ("pytest", "pytest-timeout", "pytz")
PYMONGO = "pymongo==4.20.0"
LANGCHAIN = ("langchain-ollama", "langchain-openai", "pytest-asyncio", "pytest-mock")


@dataclass(frozen=True)
class Suite:
    """The tests of one library.

    Args:
        requirement: the library, pinned to a version whose source distribution carries its tests.
        tests: their folder or file in the source distribution; for a program, its labels.
        needs: further packages that they import.
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
    "aiohttp-client-cache": Suite(
        "aiohttp-client-cache[mongodb]==0.15.0",
        "test/integration/test_mongodb.py",
        ("aiofiles", "aiosqlite", "brotli", "faker", "httpbin", "pytest-aiohttp", "pytest-asyncio"),
        added={"test/integration/conftest.py": "aiohttp_client_cache_httpbin.py"},
    ),
    "apscheduler": Suite(
        "apscheduler==3.11.3",
        "tests/test_jobstores.py",
        # The stores of other databases skip themselves.
        ("anyio", "sqlalchemy"),
        options=("-k", "mongodb"),
    ),
    "beanie": Suite(
        # 2.2.0 carries no tests.
        "beanie==2.1.0",
        "tests",
        (
            "pytest-asyncio==1.3.0",
            "asgi-lifespan",
            "httpx",
            "fastapi<0.130.0",
            "pydantic-settings",
            "pydantic-extra-types",
            "pydantic[email]",
            "time-machine",
        ),
        replica_set=True,
    ),
    "cachelib": Suite("cachelib==0.17.0", "tests/test_mongodb_cache.py", ("pytest-xprocess",)),
    "celery": Suite(
        "celery==5.7.0",
        "t/unit/backends/test_mongodb.py",
        ("dnspython", "msgpack", "pytest-celery", "pytest-subtests", "pyyaml"),
        # Its worker refuses to run as root.
        variables={"C_FORCE_ROOT": "1"},
    ),
    # Its tests start a mongod of their own.
    "dask-mongo": Suite("dask-mongo==2022.5.0", "dask_mongo/tests", ("dask[distributed]", "pandas")),
    "django-mongodb-backend": Suite(
        # 6.1.0 needs Python 3.12.
        "django-mongodb-backend==5.2.4",
        "tests",
        ("unittest-xml-reporting",),
        options=("--settings", "suite_settings", "--parallel", "1"),
        replica_set=True,
        added={
            "suite_runner.py": "django_suite_runner.py",
            "suite_settings.py": "django_suite_settings.py",
        },
        host="django==5.2.19",
        program="runtests.py",
        # Needs GDAL; the backend's own list leaves it out if GDAL is missing.
        left_out=("gis_tests_",),
    ),
    "eve": Suite(
        # Later versions are on the index as wheels alone.
        "eve==2.1.0",
        "eve/tests",
        ("flask==2.2.5", "werkzeug==2.2.3", "redis", "testfixtures", "setuptools<80"),
        options=("-o", "python_files=eve/tests/*.py"),
    ),
    "fastapi-users-db-beanie": Suite(
        "fastapi-users-db-beanie==5.0.0", "tests", ("pytest-asyncio",), options=("-o", "asyncio_mode=auto")
    ),
    "flask-admin": Suite(
        "flask-admin[images,mongoengine,pymongo]==2.2.1",
        "flask_admin/tests/pymongo",
        (
            # The folder's own fixtures import most of them.
            *(
                "arrow",
                "colour",
                "email-validator",
                "flask-babel",
                "flask-sqlalchemy",
                "flask-sqlalchemy-lite",
            ),
            *("geoalchemy2", "peewee", "shapely", "sqlalchemy-citext", "sqlalchemy-utils", "tablib"),
        ),
        options=("flask_admin/tests/mongoengine",),
    ),
    "flask-pymongo": Suite(
        # 3.0.1 carries no tests.
        "flask-pymongo==2.3.0",
        "flask_pymongo/tests",
        ("flask==2.2.5", "werkzeug==2.2.3", "six==1.17.0"),
    ),
    "kombu": Suite("kombu==5.7.0", "t/integration/test_mongodb.py", ("pytest-rerunfailures",)),
    "langchain-mongodb": Suite(
        "langchain-mongodb==0.12.1",
        "tests/unit_tests",
        (*LANGCHAIN, "langchain-community", "langchain-tests==1.1.9"),
        # The other integration tests need Atlas Search, a model or a document of arXiv.
        options=tuple(
            f"tests/integration_tests/test_{name}.py"
            for name in ("chat_message_histories", "indexes", "loaders", "mongodb_database", "tools")
        ),
        variables={"MONGODB_URI": "mongodb://localhost:27017"},
    ),
    "langgraph-checkpoint-mongodb": Suite("langgraph-checkpoint-mongodb==0.5.1", "tests", LANGCHAIN),
    # The integration tests need Atlas Search.
    "langgraph-store-mongodb": Suite(
        "langgraph-store-mongodb==0.4.0", "tests/unit_tests", ("pytest-asyncio",)
    ),
    "log4mongo": Suite("log4mongo==1.8.1", "test"),
    "luigi": Suite("luigi==3.8.1", "test/contrib/mongo_test.py", ("mock",)),
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
    "odmantic": Suite(
        # 1.0.3 and 1.1.0 carry no tests.
        "odmantic==1.0.2",
        "tests",
        (
            "pytest==7.4.4",
            "pytest-asyncio==0.16.0",
            "pytest-benchmark==4.0.0",
            "inline-snapshot==0.6.1",
            "async-asgi-testclient==1.4.11",
            "asyncmock==0.4.2",
            "fastapi==0.110.0",
            "pydantic==2.6.4",
            "httpx==0.24.1",
            "requests",
            "motor==3.7.1",
        ),
        options=("--benchmark-disable",),
        replica_set=True,
        variables={"TEST_MONGO_MODE": "replicaSet"},
    ),
    "pymodm": Suite(
        "pymodm==0.4.3",
        "test",
        ("pillow",),
        added={"test/__init__.py": "pymodm_base.py", "test/models.py": "pymodm_models.py"},
    ),
    "pymongoarrow": Suite("pymongoarrow==1.15.0", "test", ("pandas", "polars", "pyarrow"), "pymongoarrow"),
    "pytest-mongodb": Suite("pytest-mongodb==2.4.0", "tests", ("mongomock",)),
    "requests-cache": Suite(
        "requests-cache[mongodb]==1.3.3",
        "tests/integration/test_mongodb.py",
        (
            "psutil",
            "pytest-httpbin",
            "requests-mock==1.12.1",
            "rich",
            "tenacity==8.5.0",
            "time-machine<3",
            "responses",
        ),
        variables={"USE_PYTEST_HTTPBIN": "true"},
    ),
    "suitcase-mongo": Suite(
        "suitcase-mongo==0.7.0",
        "suitcase/mongo_normalized/tests",
        ("bluesky", "mongomock", "ophyd", "suitcase-utils"),
    ),
    "txmongo": Suite("txmongo==26.0.0", "tests/basic", ("pyopenssl", "service-identity", "mock")),
    "umongo": Suite("umongo==4.0.0", "tests", ("motor==3.7.1", "mongomock==4.3.0")),
}
