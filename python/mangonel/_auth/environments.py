"""Tokens that cloud environments issue to their programs, for MONGODB-OIDC's property ENVIRONMENT.

Each comes from a file or from one request to an address on the machine; no library is needed. Spec: auth, "Built-in
OIDC Environment Integrations".
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

from mangonel.auth_oidc import OIDCCallback, OIDCCallbackContext, OIDCCallbackResult
from mangonel.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

# The required properties of these environments.
NEEDS_RESOURCE = ("azure", "gcp")

_KUBERNETES_FILES = ("AZURE_FEDERATED_TOKEN_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE")
_KUBERNETES_DEFAULT = "/var/run/secrets/kubernetes.io/serviceaccount/token"
_AZURE = "http://169.254.169.254/metadata/identity/oauth2/token"
_GCP = "http://metadata/computeMetadata/v1/instance/service-accounts/default/identity"


class EnvironmentCallback(OIDCCallback):
    """Fetches tokens from the environment of the program."""

    def __init__(self, environment: str, resource: str) -> None:
        self._environment = environment
        self._resource = resource

    def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:
        """Return the token of this machine."""
        return _FETCHERS[self._environment](self._resource, context)


def _test(resource: str, context: OIDCCallbackContext) -> OIDCCallbackResult:
    return _read("OIDC_TOKEN_FILE", os.environ.get("OIDC_TOKEN_FILE"))


def _kubernetes(resource: str, context: OIDCCallbackContext) -> OIDCCallbackResult:
    named = (os.environ[name] for name in _KUBERNETES_FILES if os.environ.get(name))
    return _read("the service account's token", next(named, _KUBERNETES_DEFAULT))


def _azure(resource: str, context: OIDCCallbackContext) -> OIDCCallbackResult:
    query = {"api-version": "2018-02-01", "resource": resource}
    if context.username:
        query["client_id"] = context.username
    headers = {"Metadata": "true", "Accept": "application/json"}
    result = _azure_result(_ask(f"{_AZURE}?{urlencode(query)}", headers, context))
    if result is None:
        # The body may hold a token, so this frame keeps neither the body nor an error that quotes it.
        raise ConfigurationError(
            "expected access_token and expires_in from Azure's metadata service, got others"
        )
    return result


def _azure_result(body: str) -> OIDCCallbackResult | None:
    try:
        said = json.loads(body)
        return OIDCCallbackResult(said["access_token"], float(said["expires_in"]))
    except (ValueError, KeyError, TypeError):
        return None


def _gcp(resource: str, context: OIDCCallbackContext) -> OIDCCallbackResult:
    url = f"{_GCP}?{urlencode({'audience': resource})}"
    return OIDCCallbackResult(_ask(url, {"Metadata-Flavor": "Google"}, context))


_FETCHERS: dict[str, Callable[[str, OIDCCallbackContext], OIDCCallbackResult]] = {
    "azure": _azure,
    "gcp": _gcp,
    "k8s": _kubernetes,
    "test": _test,
}

ENVIRONMENTS = tuple(_FETCHERS)


def _read(what: str, path: str | None) -> OIDCCallbackResult:
    if not path:
        raise ConfigurationError(f"expected {what} to name the file of an OIDC token, got it unset")
    with open(path, encoding="utf-8") as file:
        return OIDCCallbackResult(file.read().strip())


def _ask(url: str, headers: dict[str, str], context: OIDCCallbackContext) -> str:
    # A metadata service is on the machine itself: a proxy could only fail, or read the token.
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(Request(url, headers=headers), timeout=context.timeout_seconds) as response:
            body: bytes = response.read()
            return body.decode()
    except HTTPError as error:
        raise ConfigurationError(f"the metadata service refused a token: HTTP {error.code}") from None
    except OSError as error:
        raise ConfigurationError(f"cannot get a token from the metadata service: {error}") from error
