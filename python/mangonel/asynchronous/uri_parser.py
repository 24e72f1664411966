"""`parse_uri` for asyncio, under PyMongo's name for this module: it queries DNS without blocking the loop."""

from __future__ import annotations

from mangonel._options.srv import ask_on_loop
from mangonel.uri_parser import DEFAULT_PORT, SRV_SCHEME, resolve_srv_flow, split_uri, with_spelling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["parse_uri"]


async def parse_uri(
    uri: str,
    default_port: int | None = DEFAULT_PORT,
    validate: bool = True,
    warn: bool = False,
    normalize: bool = True,
    connect_timeout: float | None = None,
    srv_service_name: str | None = None,
    srv_max_hosts: int | None = None,
    srv_allowed_hosts_suffix: str | None = None,
    srv_host_validator: Callable[[str], bool] | None = None,
) -> dict[str, Any]:
    """Return the parts of a connection string; arguments and errors as for `mangonel.uri_parser.parse_uri`.

    Example:
        >>> (await parse_uri("mongodb://db.example/shop?appName=web"))["nodelist"]
        [('db.example', 27017)]
    """
    parts = split_uri(uri, default_port, validate, warn, normalize, srv_max_hosts)
    if uri.startswith(SRV_SCHEME):
        await resolve_srv_flow(
            parts,
            ask_on_loop,
            warn=warn,
            validate=validate,
            normalize=normalize,
            timeout=connect_timeout,
            service_name=srv_service_name,
            max_hosts=srv_max_hosts,
            allowed_hosts_suffix=srv_allowed_hosts_suffix,
            host_validator=srv_host_validator,
        )
    return with_spelling(parts)
