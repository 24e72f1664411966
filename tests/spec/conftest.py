"""Deployments for the specification cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mangonel.server import Server, start
from spec.unified.deployments import Deployment
from spec.unified.driver import load_driver
from spec.unified.suites import parameters
from tools import target

PARAMETERS = parameters(target.version())

# Their cases read from secondaries. In a sample the others get a set of one, whose writes cost a third.
OF_SEVERAL_MEMBERS = ("server-discovery-and-monitoring", "server-selection")


@pytest.fixture(scope="session")
def spec_standalone() -> Iterator[Server]:
    """A standalone with fail points."""
    with start(set_parameters=PARAMETERS) as server:
        yield server


# Not kept for other folders' tests: three members take CPU time even when idle.
@pytest.fixture(scope="module")
def spec_replica_set() -> Iterator[Server]:
    """Three members with fail points."""
    with start(replica_set=3, set_parameters=PARAMETERS) as server:
        yield server


@pytest.fixture(scope="session")
def spec_replica_set_of_one() -> Iterator[Server]:
    """One member with fail points."""
    with start(replica_set=1, set_parameters=PARAMETERS) as server:
        yield server


@pytest.fixture(scope="session")
def spec_replica_set_with_users() -> Iterator[Server]:
    """A set of one with access control and fail points."""
    with start(replica_set=1, auth=("user", "pencil"), set_parameters=PARAMETERS) as server:
        yield server


@pytest.fixture(scope="module")
def find_deployment(request: pytest.FixtureRequest) -> Iterator[Callable[..., Deployment]]:
    """Return a function from a deployment's name to the deployment, which starts on first use."""
    found: dict[str, Deployment] = {}
    is_sample = request.config.getoption("--sample")

    def find(name: str, suite: str = "") -> Deployment:
        if target.URI:
            return found.setdefault(name, Deployment(load_driver(), target.shared()))
        if is_sample and name == "replica set" and suite not in OF_SEVERAL_MEMBERS:
            name = "replica set of one"
        if name not in found:
            server = request.getfixturevalue(f"spec_{name.replace(' ', '_')}")
            found[name] = Deployment(load_driver(), server)
        return found[name]

    yield find
    for deployment in found.values():
        deployment.close()
