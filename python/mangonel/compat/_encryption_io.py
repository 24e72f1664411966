"""`_EncryptionIO` of `pymongo.encryption`: programs replace its `kms_request`, for example to cache a key.

Once this is imported, every request of a blocking client to a key service goes through that method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mangonel import _core
from mangonel.encryption._kms import Kms

if TYPE_CHECKING:
    from mangonel.encryption._library import KmsRequest

_request_flow = Kms._request_flow


class _KmsContext:
    """A request to a key service, with the attributes of pymongocrypt's class."""

    def __init__(self, request: KmsRequest) -> None:
        self._request = request
        self.feed = request.feed
        self.fail = request.fail

    @property
    def endpoint(self) -> str:
        return self._request.endpoint

    @property
    def message(self) -> bytes:
        return self._request.message

    @property
    def kms_provider(self) -> str:
        return self._request.provider

    @property
    def bytes_needed(self) -> int:
        return self._request.missing

    @property
    def usleep(self) -> int:
        return round(self._request.delay * 1e6)


class _EncryptionIO:
    """Stands in for PyMongo's class, of which only `kms_request` is called."""

    def __init__(self, kms: Kms) -> None:
        self._kms = kms

    def kms_request(self, kms_context: _KmsContext) -> None:
        """Send a request to its service, and feed it the response."""
        _core.run_now(_request_flow(self._kms, kms_context._request))


_kms_request = _EncryptionIO.kms_request


async def _replaceable_flow(self: Kms, request: KmsRequest) -> None:
    if self._port.is_async or _EncryptionIO.kms_request is _kms_request:
        await _request_flow(self, request)
    else:
        context: Any = _KmsContext(request)
        _EncryptionIO(self).kms_request(context)


Kms._request_flow = _replaceable_flow  # type: ignore[method-assign]  # where it begins to be replaceable
