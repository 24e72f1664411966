"""The hosts of a client whose URI begins with `mongodb+srv://`: looked up once, then polled."""

from __future__ import annotations

from mangonel._options.case_insensitive import CaseInsensitiveDict
from mangonel._options.srv import SrvResolver
from mangonel.uri_parser import resolve_srv

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mangonel.typings import _Address


class SeedList:
    """Looks up the hosts of a client whose URI begins with `mongodb+srv://`. Queries DNS only when asked.

    Args:
        parts: the parts of the URI, as split_uri returns them.
        given: checked keyword arguments; they override the URI and DNS.
    """

    def __init__(
        self, parts: Mapping[str, Any], given: CaseInsensitiveDict, others: Sequence[_Address] = ()
    ) -> None:
        self._parts = parts
        self._given = given
        self._others = list(others)
        self.name: str = parts["fqdn"]
        settings = CaseInsensitiveDict(parts["options"])
        settings.absorb(given)
        self.max_hosts: int = settings.get("srvmaxhosts") or 0
        self._settings: dict[str, Any] = {
            "timeout": settings.get("connecttimeoutms"),
            "service_name": settings.get("srvservicename"),
            "allowed_hosts_suffix": settings.get("srvallowedhostssuffix"),
            "host_validator": settings.get("srv_host_validator"),
        }
        # Made now, so that wrong arguments raise before any query.
        self._resolver = SrvResolver(parts["fqdn"], **self._settings)

    def placeholder(self) -> tuple[dict[str, Any], CaseInsensitiveDict, list[_Address]]:
        """Return parts, keyword arguments and hosts as known before DNS is queried."""
        parts = self._copy()
        self._set_tls(parts["options"])
        return parts, self._given, [*parts["nodelist"], *self._others]

    def resolved(self) -> tuple[dict[str, Any], CaseInsensitiveDict, list[_Address]]:
        """Query DNS; return parts, keyword arguments and hosts. Blocks; raises the same as uri_parser.resolve_srv."""
        parts = self._copy()
        self._set_tls(parts["options"])
        resolve_srv(parts, warn=True, normalize=False, max_hosts=self.max_hosts or None, **self._settings)
        if self._is_tls_given():
            # resolve_srv set it without knowing the keyword arguments.
            parts["options"].pop("tls", None)
        return parts, self._given, [*parts["nodelist"], *self._others]

    def poll(self) -> tuple[list[tuple[str, int]], float]:
        """Query DNS for the hosts again, as SrvResolver.poll does."""
        return self._resolver.poll()

    def _copy(self) -> dict[str, Any]:
        return {**self._parts, "options": CaseInsensitiveDict(self._parts["options"])}

    def _is_tls_given(self) -> bool:
        options = self._parts["options"]
        return (
            "tls" not in options and "ssl" not in options and ("tls" in self._given or "ssl" in self._given)
        )

    def _set_tls(self, options: CaseInsensitiveDict) -> None:
        # TLS is on unless an option says otherwise.
        if not any(name in where for name in ("tls", "ssl") for where in (options, self._given)):
            options["tls"] = True
