"""Motor's classes for explicit encryption."""

from __future__ import annotations

from typing import Any

from mangonel.encryption.api import AsyncClientEncryption


class AgnosticClientEncryption(AsyncClientEncryption):
    """Encrypts values; `get_keys` is awaited."""

    def __init__(
        self,
        kms_providers: Any,
        key_vault_namespace: str,
        key_vault_client: Any,
        codec_options: Any,
        io_loop: Any = None,
        kms_tls_options: Any = None,
    ) -> None:
        super().__init__(kms_providers, key_vault_namespace, key_vault_client, codec_options, kms_tls_options)
        self._io_loop = io_loop
        self._client = key_vault_client

    def get_io_loop(self) -> Any:
        """Return the event loop that it was created with, or the client's."""
        return self._io_loop or self._client.get_io_loop()

    io_loop = property(get_io_loop)

    async def get_keys(self) -> Any:  # type: ignore[override]  # awaited in Motor
        """Return a cursor over all data keys. Sends nothing."""
        return super().get_keys()


class AsyncIOMotorClientEncryption(AgnosticClientEncryption): ...


class MotorClientEncryption(AgnosticClientEncryption): ...
