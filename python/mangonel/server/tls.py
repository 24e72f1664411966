"""Converts certificate paths to mongod's options, URI options, and a TLS context for the setup commands."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

__all__ = ["tls_arguments", "tls_context", "tls_options", "tls_uri_options"]

# mongod's configuration names (net.tls.*), and the attribute of an object with the same meaning.
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
    """Return the net.tls options in a mapping (either spelling) or in an object's attributes."""
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
    """Return the URI options that let a client on this machine connect."""
    result = ["tls=true"]
    if "CAFile" in options:
        result.append("tlsCAFile=" + quote(options["CAFile"], safe="/"))
        if "allowConnectionsWithoutCertificates" not in options:
            result.append("tlsCertificateKeyFile=" + quote(options["certificateKeyFile"], safe="/"))
    return result


def tls_context(options: Mapping[str, Any]) -> ssl.SSLContext:
    """Return a TLS context for the commands that set up the server.

    It verifies nothing: the peer is the process that was just started, and a test may want its certificate to be
    rejected.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(options["certificateKeyFile"], password=options.get("certificateKeyFilePassword"))
    return context
