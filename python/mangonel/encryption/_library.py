"""libmongocrypt as objects: one for the library's state, one for each value or message that goes through it.

The package `pymongocrypt` brings the library and its declarations; nothing else of it is used, so that each face does
I/O in its own way and no call waits. Must not know: clients, sockets, the key vault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mangonel.encryption._refusals import without_answer
from mangonel.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

REMEDY = "python -m pip install 'mangonel[encryption]'"

try:
    from pymongocrypt.binding import ffi, lib
    from pymongocrypt.errors import MongoCryptError as MongoCryptError
except ImportError as error:
    # The names can be imported without the library, as PyMongo's; they can only not be used.
    _absence: ImportError | None = error
    ffi = lib = None

    class MongoCryptError(Exception):  # type: ignore[no-redef]
        """Never raised: there is nobody to raise it."""
else:
    _absence = None

# Bytes of an answer of a key service, which has some kilobytes. The library would take 16 MB, and twenty times as much
# memory for that many headers.
_LONGEST_ANSWER = 1024 * 1024

# mongocrypt_ctx_state_t
ERROR, NEED_COLLECTION, NEED_MARKINGS, NEED_KEYS, NEED_KMS, READY, DONE, NEED_CREDENTIALS = range(8)

if lib is not None:
    _BINARY = ffi.typeof("mongocrypt_binary_t *")
    _BYTES = ffi.typeof("uint8_t[]")
    _NULL = ffi.NULL
    # Asked for by name once: each look at the library is a look into a dict of cffi's.
    _context_state = lib.mongocrypt_ctx_state
    _context_destroy = lib.mongocrypt_ctx_destroy
    _finalize = lib.mongocrypt_ctx_finalize


def require() -> None:
    """Raise ConfigurationError when the library is not installed."""
    if _absence is not None:
        raise ConfigurationError(
            f"encrypted fields need libmongocrypt, got no pymongocrypt; install with: {REMEDY}"
        ) from _absence


class Crypt:
    """libmongocrypt's state: master keys, schemas, and the data keys that it has seen for a while.

    Used by any number of threads. It is freed when the last context of it is.

    Args:
        providers: encoded document of master keys, or of the credentials of who has them.
        asks_for_credentials: a provider's document is empty, so its credentials are found when they are needed.
        schemas, encrypted_fields: encoded maps from namespaces to JSON schemas, to encrypted fields.
        analyses_commands: look for a library that knows which fields of a command to encrypt.
        shared_library: its path. None: wherever the system looks for libraries.
        marks_commands: whether commands are looked at for fields to encrypt; explicitly encrypted ones go through.
        key_expiration_ms: how long a data key is kept. None: the library's default, a minute; 0: for ever.

    Raises:
        MongoCryptError: the library refuses an option.
    """

    __slots__ = ("_handle",)

    def __init__(
        self,
        providers: bytes,
        *,
        asks_for_credentials: bool = False,
        schemas: bytes | None = None,
        encrypted_fields: bytes | None = None,
        analyses_commands: bool = False,
        shared_library: str | None = None,
        marks_commands: bool = True,
        key_expiration_ms: int | None = None,
    ) -> None:
        handle = ffi.gc(lib.mongocrypt_new(), lib.mongocrypt_destroy)
        self._handle = handle
        if not lib.mongocrypt_is_crypto_available():
            # So are most builds of the package.
            from mangonel.encryption import _cryptography

            self._check(_cryptography.install(handle))
        self._set(lib.mongocrypt_setopt_kms_providers, providers)
        if schemas is not None:
            self._set(lib.mongocrypt_setopt_schema_map, schemas)
        if encrypted_fields is not None:
            self._set(lib.mongocrypt_setopt_encrypted_field_config_map, encrypted_fields)
        if not marks_commands:
            lib.mongocrypt_setopt_bypass_query_analysis(handle)
        lib.mongocrypt_setopt_enable_multiple_collinfo(handle)
        if shared_library is not None:
            lib.mongocrypt_setopt_set_crypt_shared_lib_path_override(handle, shared_library.encode())
        if analyses_commands:
            lib.mongocrypt_setopt_append_crypt_shared_lib_search_path(handle, b"$SYSTEM")
        if asks_for_credentials:
            lib.mongocrypt_setopt_use_need_kms_credentials_state(handle)
        self._check(lib.mongocrypt_setopt_retry_kms(handle, True))
        if key_expiration_ms is not None:
            if not isinstance(key_expiration_ms, int) or key_expiration_ms < 0:
                raise ValueError(
                    f"expected key_expiration_ms to be an int of 0 or more, got {key_expiration_ms!r}"
                )
            self._check(lib.mongocrypt_setopt_key_expiration(handle, key_expiration_ms))
        self._check(lib.mongocrypt_init(handle))

    def _set(self, setter: Any, document: bytes) -> None:
        self._check(setter(self._handle, _binary(document)))

    def _check(self, is_well: bool) -> None:
        if not is_well:
            raise _failure(lib.mongocrypt_status, self._handle)

    @property
    def shared_library_version(self) -> str | None:
        """The version of the library that analyses commands; None when there is none."""
        version = lib.mongocrypt_crypt_shared_lib_version_string(self._handle, _NULL)
        return None if version == _NULL else ffi.string(version).decode()

    def context(self) -> Context:
        """Return a new context, to be set up, begun, run and closed."""
        handle = lib.mongocrypt_ctx_new(self._handle)
        if handle == _NULL:
            raise _failure(lib.mongocrypt_status, self._handle)
        return Context(handle, self._handle)


class Context:
    """One value or message on its way through libmongocrypt. Belongs to one thread or task; close it."""

    __slots__ = ("_handle", "_owner", "database")

    def __init__(self, handle: Any, owner: Any) -> None:
        self._handle = handle
        # The library's state must outlive its contexts, whoever closes what first.
        self._owner = owner
        self.database = ""

    def close(self) -> None:
        """Free it, and wipe what it holds. Closing it twice does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            _context_destroy(handle)

    @property
    def state(self) -> int:
        """What it needs next: one of the names above."""
        return _context_state(self._handle)  # type: ignore[no-any-return]  # cffi has no types

    def failure(self) -> MongoCryptError:
        """Return the error that it stands in."""
        return _failure(lib.mongocrypt_ctx_status, self._handle)

    def _check(self, is_well: bool) -> None:
        if not is_well:
            raise self.failure()

    # Setting up.

    def set_algorithm(self, name: str) -> None:
        """Say how a value is encrypted."""
        if not isinstance(name, str):
            raise TypeError(f"expected algorithm to be a str, got {type(name)}")
        self._check(lib.mongocrypt_ctx_setopt_algorithm(self._handle, name.encode(), -1))

    def set_key_id(self, key_id: bytes) -> None:
        """Name the data key by the 16 bytes of its `_id`."""
        binary = _binary(key_id)
        self._check(lib.mongocrypt_ctx_setopt_key_id(self._handle, binary))

    def set_query_type(self, name: str) -> None:
        """Say what query the value is for."""
        if not isinstance(name, str):
            raise TypeError(f"expected query_type to be a str, got {type(name)}")
        self._check(lib.mongocrypt_ctx_setopt_query_type(self._handle, name.encode(), -1))

    def set_contention(self, factor: int) -> None:
        """Say over how many entries of the index equal values are spread."""
        if not isinstance(factor, int):
            raise TypeError(f"expected contention_factor to be an int, got {type(factor)}")
        self._check(lib.mongocrypt_ctx_setopt_contention_factor(self._handle, factor))

    def set_document(self, option: str, document: bytes) -> None:
        """Set an option that is a document: `key_alt_name`, `algorithm_range` or another of the library's."""
        binary = _binary(document)
        self._check(getattr(lib, f"mongocrypt_ctx_setopt_{option}")(self._handle, binary))

    # Beginning.

    def begin(self, what: str, document: bytes | None = None) -> None:
        """Begin `what`, the library's name of it: `explicit_encrypt`, `explicit_decrypt`, `datakey` and so on."""
        if document is None:
            self._check(getattr(lib, f"mongocrypt_ctx_{what}_init")(self._handle))
        else:
            binary = _binary(document)
            self._check(getattr(lib, f"mongocrypt_ctx_{what}_init")(self._handle, binary))

    def begin_decrypting_value(self, document: bytes) -> None:
        """Begin with `{"v": encrypted value}`."""
        binary = _binary(document)
        self._check(lib.mongocrypt_ctx_explicit_decrypt_init(self._handle, binary))

    def begin_decrypting(self, message: bytes) -> None:
        """Begin with a reply whose encrypted values are to be decrypted."""
        binary = _binary(message)
        self._check(lib.mongocrypt_ctx_decrypt_init(self._handle, binary))

    def begin_encrypting(self, database: str, command: bytes) -> None:
        """Begin with a command whose fields are to be encrypted as the collection's schema says."""
        self.database = database
        binary = _binary(command)
        name = database.encode()
        self._check(lib.mongocrypt_ctx_encrypt_init(self._handle, name, len(name), binary))

    # Running.

    def question(self) -> bytes:
        """Return the filter or command whose answer it needs."""
        return self._out(lib.mongocrypt_ctx_mongo_op)

    def feed(self, document: bytes) -> None:
        """Give it one document of the answer."""
        binary = _binary(document)
        self._check(lib.mongocrypt_ctx_mongo_feed(self._handle, binary))

    def end_answer(self) -> None:
        """Say that the answer is complete."""
        self._check(lib.mongocrypt_ctx_mongo_done(self._handle))

    def provide_credentials(self, providers: bytes) -> None:
        """Give it the credentials that were found."""
        binary = _binary(providers)
        self._check(lib.mongocrypt_ctx_provide_kms_providers(self._handle, binary))

    def kms_requests(self) -> Iterator[KmsRequest]:
        """Yield the requests to key management services, one after the other; a failed one may come again."""
        while (handle := lib.mongocrypt_ctx_next_kms_ctx(self._handle)) != _NULL:
            yield KmsRequest(handle)

    def end_kms(self) -> None:
        """Say that each request was answered."""
        self._check(lib.mongocrypt_ctx_kms_done(self._handle))

    def result(self) -> bytes:
        """Return what became of the value or message; only in the state READY."""
        return self._out(_finalize)

    def _out(self, function: Any) -> bytes:
        binary = ffi.new(_BINARY)
        self._check(function(self._handle, binary))
        return ffi.buffer(binary.data, binary.len)[:]  # type: ignore[no-any-return]  # cffi has no types


class KmsRequest:
    """One request to a key management service. Its bytes may hold credentials or a key: keep them out of any locals."""

    __slots__ = ("_handle", "_left")

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._left = _LONGEST_ANSWER

    def _check(self, is_well: bool) -> None:
        if not is_well:
            raise _failure(lib.mongocrypt_kms_ctx_status, self._handle)

    @property
    def endpoint(self) -> str:
        """Host and port."""
        found = ffi.new("char *[]", 1)
        self._check(lib.mongocrypt_kms_ctx_endpoint(self._handle, found))
        return ffi.string(found[0]).decode()  # type: ignore[no-any-return]  # cffi has no types

    @property
    def provider(self) -> str:
        """The name of the provider, as in the providers' document."""
        return ffi.string(lib.mongocrypt_kms_ctx_get_kms_provider(self._handle, _NULL)).decode()  # type: ignore[no-any-return]  # cffi has no types

    @property
    def delay(self) -> float:
        """Seconds to wait before it is sent: the service asked for that, or an attempt failed."""
        return lib.mongocrypt_kms_ctx_usleep(self._handle) / 1e6  # type: ignore[no-any-return]  # cffi has no types

    @property
    def message(self) -> bytes:
        """What to send."""
        binary = ffi.new(_BINARY)
        self._check(lib.mongocrypt_kms_ctx_message(self._handle, binary))
        return ffi.buffer(binary.data, binary.len)[:]  # type: ignore[no-any-return]  # cffi has no types

    @property
    def missing(self) -> int:
        """How many bytes of the answer it may take next; 0 when it has all of it."""
        return lib.mongocrypt_kms_ctx_bytes_needed(self._handle)  # type: ignore[no-any-return]  # cffi has no types

    def feed(self, data: bytes) -> None:
        """Give it bytes of the answer, at most `missing`.

        Raises:
            MongoCryptError: they are no answer, a refusal, or too many.
        """
        self._left -= len(data)
        if self._left < 0:
            raise MongoCryptError("the answer is longer than 1 MiB")
        binary = _binary(data)
        self._check(lib.mongocrypt_kms_ctx_feed(self._handle, binary))

    def fail(self) -> None:
        """Say that the network failed.

        Raises:
            MongoCryptError: that was the last attempt.
        """
        self._check(lib.mongocrypt_kms_ctx_fail(self._handle))


def _binary(data: bytes) -> Any:
    """Return a view of `data`, which the caller keeps for as long. The library copies what it needs for longer."""
    binary = ffi.new(_BINARY)
    binary.data = ffi.from_buffer(_BYTES, data)
    binary.len = len(data)
    return binary


def _failure(read: Any, handle: Any) -> MongoCryptError:
    status = lib.mongocrypt_status_new()
    try:
        read(handle, status)
        text = ffi.string(lib.mongocrypt_status_message(status, _NULL)).decode(errors="replace")
        return MongoCryptError(without_answer(text), lib.mongocrypt_status_code(status))
    finally:
        lib.mongocrypt_status_destroy(status)
