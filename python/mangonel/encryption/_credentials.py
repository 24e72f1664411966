"""Credentials of key management services: passed by the application, or found on the machine.

Spec: client-side-encryption ("Automatic Credentials").
"""

from __future__ import annotations

import json
import os
import time
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

from mangonel import _core
from mangonel.errors import ConfigurationError, NetworkTimeout

if TYPE_CHECKING:
    from collections.abc import Mapping

# The fields that a provider must have unless its document is empty.
_NEEDED = {
    "aws": ("accessKeyId", "secretAccessKey"),
    "azure": ("clientId", "clientSecret"),
    "gcp": ("email", "privateKey"),
    "kmip": ("endpoint",),
    "local": ("key",),
}

# The providers whose credentials can be found on the machine.
_FOUND = ("aws", "azure", "gcp")

_AZURE = "http://169.254.169.254/metadata/identity/oauth2/token"
_GCP = "/computeMetadata/v1/instance/service-accounts/default/token"
_SECONDS = 10.0
_SHORTEST_WAIT = 0.001
_MOST_BYTES = 64 * 1024
# Seconds before its expiry from which a token is not used any more.
_MARGIN = 60.0


def encode_providers(providers: Any) -> tuple[bytes, bool]:
    """Return the encoded providers, and whether any provider's credentials must be found on the machine.

    Raises:
        ValueError, TypeError: the providers are incomplete. The message contains no value.
    """
    if not isinstance(providers, dict):
        raise ValueError(f"expected kms_providers to be a dict, got {type(providers)}")
    if not providers:
        raise ValueError("expected at least one provider in kms_providers, got none")
    for name, options in providers.items():
        kind = name.partition(":")[0]
        if kind not in _NEEDED:
            continue
        if not isinstance(options, dict):
            raise ValueError(f"expected kms_providers[{name!r}] to be a dict, got {type(options)}")
        if "accessToken" in options or (not options and name in _FOUND):
            continue
        missing = [field for field in _NEEDED[kind] if field not in options]
        if missing:
            raise ValueError(f"expected {' and '.join(missing)} in kms_providers[{name!r}], got none")
        for field in ("key", "privateKey"):
            if not isinstance(options.get(field, ""), (bytes, str)):
                raise TypeError(f"expected kms_providers[{name!r}][{field!r}] to be bytes or base64 in a str")
    return _core.encode(providers), any(providers.get(name) == {} for name in _FOUND)


def find(providers: Mapping[str, Any], until: float) -> bytes:
    """Find credentials for the providers without any, and return them encoded. Blocks.

    Args:
        providers: names and documents of the providers.
        until: deadline as a time of `time.monotonic()`.

    Raises:
        ConfigurationError: no credentials were found.
        NetworkTimeout: a metadata service did not answer in time.
    """
    found = {}
    for name, finder in (("aws", _aws), ("azure", _azure), ("gcp", _gcp)):
        if providers.get(name) == {}:
            found[name] = finder(min(until, time.monotonic() + _SECONDS))
    return _core.encode(found)


def _aws(until: float) -> dict[str, str]:
    try:
        import botocore.session
    except ImportError as error:
        raise ConfigurationError(
            "finding AWS credentials needs botocore: install with: python -m pip install 'mangonel[aws]'"
        ) from error
    held = botocore.session.Session().get_credentials()
    if held is None:
        raise ConfigurationError(
            "no AWS credentials: expected them in kms_providers, or in the environment, files, container or instance "
            "that botocore looks at, got none"
        )
    key, secret, token = held.get_frozen_credentials()[:3]
    document = {"accessKeyId": key, "secretAccessKey": secret}
    return {**document, "sessionToken": token} if token else document


# The token of Azure, and its expiry by time.monotonic().
_azure_token: tuple[str, float] | None = None


def _azure(until: float) -> dict[str, str]:
    global _azure_token
    held = _azure_token
    if held is None or held[1] - time.monotonic() < _MARGIN:
        query = urlencode({"api-version": "2018-02-01", "resource": "https://vault.azure.net"})
        answer = _ask("Azure", f"{_AZURE}?{query}", {"Metadata": "true", "Accept": "application/json"}, until)
        held = _azure_token = (_field("Azure", answer, "access_token"), time.monotonic() + _span(answer))
    return {"accessToken": held[0]}


def _gcp(until: float) -> dict[str, str]:
    host = os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
    answer = _ask("GCP", f"http://{host}{_GCP}", {"Metadata-Flavor": "Google"}, until)
    return {"accessToken": _field("GCP", answer, "access_token")}


def _field(cloud: str, answer: dict[str, Any], name: str) -> str:
    found = answer.get(name)
    if not isinstance(found, str) or not found:
        # The rest of the response may hold a token.
        raise ConfigurationError(f"expected {name} from the metadata service of {cloud}, got none")
    return found


def _span(answer: dict[str, Any]) -> float:
    try:
        return float(answer["expires_in"])
    except (KeyError, TypeError, ValueError):
        return 0.0


def _ask(cloud: str, url: str, headers: dict[str, str], until: float) -> dict[str, Any]:
    # A metadata service is on the machine itself: a proxy could only fail, or read the token.
    opener = build_opener(ProxyHandler({}))
    try:
        seconds = max(until - time.monotonic(), _SHORTEST_WAIT)
        with opener.open(Request(url, headers=headers), timeout=seconds) as response:
            answer = json.loads(_read(response, until))
    except HTTPError as error:
        raise ConfigurationError(
            f"the metadata service of {cloud} refused a token: HTTP {error.code}"
        ) from None
    except OSError as error:
        if isinstance(getattr(error, "reason", error), TimeoutError):
            raise NetworkTimeout(f"the metadata service of {cloud} did not answer in time") from None
        raise ConfigurationError(f"no token from the metadata service of {cloud}: {error}") from None
    except (HTTPException, ValueError):
        answer = None
    return answer if isinstance(answer, dict) else {}


def _read(response: Any, until: float) -> bytes:
    """Return a service's response if it arrives in time; it holds a token and little else."""
    found = bytearray()
    while piece := response.read1(_MOST_BYTES):
        found += piece
        if len(found) > _MOST_BYTES:
            return b""
        if time.monotonic() > until:
            raise TimeoutError
    return bytes(found)
