"""The public classes of encrypted fields: each joins a definition with a face. No logic lives here.

`api.pyi` is written by `tools/stubs.py`; run `make stubs` after changing a signature.
"""

from __future__ import annotations

from mangonel import _api
from mangonel._shared.coroutine_functions import coroutine_functions
from mangonel._shared.cursors.iteration import AsyncClosing, BlockingClosing
from mangonel.encryption._client_encryption import _ClientEncryption


class ClientEncryption(BlockingClosing, _ClientEncryption): ...


@coroutine_functions
class AsyncClientEncryption(AsyncClosing, _ClientEncryption):
    _is_async = True


_api.publish(vars(), "mangonel.encryption.api")
