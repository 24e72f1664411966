"""Certificate paths: into mongod's options, into the URI, and into the context of our own first commands."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

__all__ = ["tls_arguments", "tls_context", "tls_options", "tls_uri_options"]

# mongod's configuration names (net.tls.*), and the attribute that an object may carry instead.
NAMES = {
    "mode": "mode",
    "certificateKeyFile": "certificate_key_file",
    "certificateKeyFilePassword": "certificate_key_file_password",
    "CAFile": "ca_file",
    "CRLFile": "crl_file",
    "clusterFile": "cluster_file",
    "clusterPassword": "cluster_password",
    "clusterCAFile": "cluster_ca_file",
    "disabledProtocols": "disabled_protocols",
    "allowConnectionsWithoutCertificates": "allow_connections_without_certificates",
    "allowInvalidHostnames": "allow_invalid_hostnames",
    "allowInvalidCertificates": "allow_invalid_certificates",
}


def tls_options(tls: Any) -> dict[str, Any]:
    """Return the net.tls options held by a mapping (either spelling) or by an object's attributes."""
    if isinstance(tls, Mapping):
        spelling = {attribute: name for name, attribute in NAMES.items()} | {name: name for name in NAMES}
        unknown = [key for key in tls if key not in spelling]
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r} in tls; expected some of {', '.join(NAMES)}")
        found = {spelling[key]: value for key, value in tls.items()}
    else:
        found = {name: getattr(tls, name, getattr(tls, attribute, None)) for name, attribute in NAMES.items()}
    options = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in found.items()
        if value is not None and value is not False
    }
    if "certificateKeyFile" not in options:
        raise ValueError("expected certificateKeyFile in tls: the file with mongod's certificate and key")
    options.setdefault("mode", "requireTLS")
    return options


def tls_arguments(options: Mapping[str, Any]) -> list[str]:
    """Return mongod's command-line options."""
    arguments = []
    for name, value in options.items():
        arguments.append(f"--tls{name[0].upper()}{name[1:]}")
        if value is not True:
            arguments.append(str(value))
    return arguments


def tls_uri_options(options: Mapping[str, Any]) -> list[str]:
    """Return the URI options with which a client on this machine gets through."""
    result = ["tls=true"]
    if "CAFile" in options:
        result.append("tlsCAFile=" + quote(options["CAFile"], safe="/"))
        if "allowConnectionsWithoutCertificates" not in options:
            result.append("tlsCertificateKeyFile=" + quote(options["certificateKeyFile"], safe="/"))
    return result


def tls_context(options: Mapping[str, Any]) -> ssl.SSLContext:
    """Return a context for the commands that set the server up.

    It verifies nothing: the other end is the process that was just started here, and its certificate may well
    be one that a test wants to see rejected.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(options["certificateKeyFile"], password=options.get("certificateKeyFilePassword"))
    return context
