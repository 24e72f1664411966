"""Where the hosts of one client come from when its URI begins with `mongodb+srv://`: asked for at first, and polled."""

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
    """Where the hosts of one client come from when its URI begins with `mongodb+srv://`. Asks only when told to.

    Args:
        parts: of the URI, as split_uri gives them.
        given: checked keyword arguments, which win over the URI and over DNS.
    """

    def __init__(
        self, parts: Mapping[str, Any], given: CaseInsensitiveDict, others: Sequence[_Address] = ()
    ) -> None:
        self._parts = parts
        self._given = given
        self._others = list(others)
        settings = CaseInsensitiveDict(parts["options"])
        settings.absorb(given)
        self.max_hosts: int = settings.get("srvmaxhosts") or 0
        self._settings: dict[str, Any] = {
            "timeout": settings.get("connecttimeoutms"),
            "service_name": settings.get("srvservicename"),
            "allowed_hosts_suffix": settings.get("srvallowedhostssuffix"),
            "host_validator": settings.get("srv_host_validator"),
        }
        # Made now, for it refuses what cannot be right before anyone is asked.
        self._resolver = SrvResolver(parts["fqdn"], **self._settings)

    def placeholder(self) -> tuple[dict[str, Any], CaseInsensitiveDict, list[_Address]]:
        """Return parts, keyword arguments and hosts as they are before DNS was asked."""
        parts = self._copy()
        self._set_tls(parts["options"])
        return parts, self._given, [*parts["nodelist"], *self._others]

    def resolved(self) -> tuple[dict[str, Any], CaseInsensitiveDict, list[_Address]]:
        """Ask DNS; return parts, keyword arguments and hosts. Blocks; errors as for uri_parser.resolve_srv."""
        parts = self._copy()
        self._set_tls(parts["options"])
        resolve_srv(parts, warn=True, normalize=False, max_hosts=self.max_hosts or None, **self._settings)
        if self._is_tls_given():
            # What resolve_srv set, not knowing of keyword arguments.
            parts["options"].pop("tls", None)
        return parts, self._given, [*parts["nodelist"], *self._others]

    def poll(self) -> tuple[list[tuple[str, int]], float]:
        """Ask DNS for the hosts once more; as SrvResolver.poll."""
        return self._resolver.poll()

    def _copy(self) -> dict[str, Any]:
        return {**self._parts, "options": CaseInsensitiveDict(self._parts["options"])}

    def _is_tls_given(self) -> bool:
        options = self._parts["options"]
        return (
            "tls" not in options and "ssl" not in options and ("tls" in self._given or "ssl" in self._given)
        )

    def _set_tls(self, options: CaseInsensitiveDict) -> None:
        # On, unless somebody says otherwise anywhere.
        if not any(name in where for name in ("tls", "ssl") for where in (options, self._given)):
            options["tls"] = True
