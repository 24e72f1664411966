"""libmongocrypt as objects: one for the library's state, one for each value or message that it processes.

The package `pymongocrypt` supplies only the library and its declarations, so each face does I/O in its own way and no
call blocks. Must not know: clients, sockets, the key vault.
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
    # As in PyMongo, the names can be imported without the library; only their use fails.
    _absence: ImportError | None = error
    ffi = lib = None

    class MongoCryptError(Exception):  # type: ignore[no-redef]
        """A placeholder that is never raised."""
else:
    _absence = None

# The most bytes of a key service's response; real ones have some kilobytes. The library would accept 16 MB, and for 16
# MB of headers would use twenty times as much memory.
_LONGEST_ANSWER = 1024 * 1024

# mongocrypt_ctx_state_t
ERROR, NEED_COLLECTION, NEED_MARKINGS, NEED_KEYS, NEED_KMS, READY, DONE, NEED_CREDENTIALS = range(8)

if lib is not None:
    _BINARY = ffi.typeof("mongocrypt_binary_t *")
    _BYTES = ffi.typeof("uint8_t[]")
    _NULL = ffi.NULL
    # Looked up once by name: each access to the library is a look-up in one of cffi's dicts.
    _context_state = lib.mongocrypt_ctx_state
    _context_destroy = lib.mongocrypt_ctx_destroy
    _finalize = lib.mongocrypt_ctx_finalize


def require() -> None:
    """Raise ConfigurationError if the library is not installed."""
    if _absence is not None:
        raise ConfigurationError(
            f"encrypted fields need libmongocrypt, got no pymongocrypt; install with: {REMEDY}"
        ) from _absence


class Crypt:
    """libmongocrypt's state: master keys, schemas, and a cache of data keys.

    Any number of threads may use it. It is freed with its last context.

    Args:
        providers: encoded document of master keys or credentials.
        asks_for_credentials: some provider's document is empty, so its credentials are found on demand.
        schemas, encrypted_fields: encoded maps from namespaces to JSON schemas and to encrypted fields.
        analyses_commands: load a library that decides which fields of a command to encrypt.
        shared_library: the path of that library. None: the system's library path.
        marks_commands: whether commands are searched for fields to encrypt; explicitly encrypted fields always pass.
        key_expiration_ms: how long a data key is cached. None: the library's default, a minute; 0: for ever.

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
            # Most builds in the package have no crypto.
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
        """The version of the library that analyses commands, or None without one."""
        version = lib.mongocrypt_crypt_shared_lib_version_string(self._handle, _NULL)
        return None if version == _NULL else ffi.string(version).decode()

    def context(self) -> Context:
        """Return a new context. Set it up, begin it, run it and close it."""
        handle = lib.mongocrypt_ctx_new(self._handle)
        if handle == _NULL:
            raise _failure(lib.mongocrypt_status, self._handle)
        return Context(handle, self._handle)


class Context:
    """One value or message that libmongocrypt processes. Belongs to one thread or task; close it."""

    __slots__ = ("_handle", "_owner", "database")

    def __init__(self, handle: Any, owner: Any) -> None:
        self._handle = handle
        # The library's state must outlive its contexts, in any order of closing.
        self._owner = owner
        self.database = ""

    def close(self) -> None:
        """Free the context and wipe its memory. Closing it twice does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            _context_destroy(handle)

    @property
    def state(self) -> int:
        """The context's state, which says what it needs next: one of the constants above."""
        return _context_state(self._handle)

    def failure(self) -> MongoCryptError:
        """Return the error of a context that has failed."""
        return _failure(lib.mongocrypt_ctx_status, self._handle)

    def _check(self, is_well: bool) -> None:
        if not is_well:
            raise self.failure()

    # Setting up.

    def set_algorithm(self, name: str) -> None:
        """Set the encryption algorithm."""
        if not isinstance(name, str):
            raise TypeError(f"expected algorithm to be a str, got {type(name)}")
        self._check(lib.mongocrypt_ctx_setopt_algorithm(self._handle, name.encode(), -1))

    def set_key_id(self, key_id: bytes) -> None:
        """Set the data key; `key_id` is the 16 bytes of its `_id`."""
        self._check(lib.mongocrypt_ctx_setopt_key_id(self._handle, _binary(key_id)))

    def set_query_type(self, name: str) -> None:
        """Set the type of query that the value is for."""
        if not isinstance(name, str):
            raise TypeError(f"expected query_type to be a str, got {type(name)}")
        self._check(lib.mongocrypt_ctx_setopt_query_type(self._handle, name.encode(), -1))

    def set_contention(self, factor: int) -> None:
        """Set the contention factor: the number of index entries over which equal values are spread."""
        if not isinstance(factor, int):
            raise TypeError(f"expected contention_factor to be an int, got {type(factor)}")
        self._check(lib.mongocrypt_ctx_setopt_contention_factor(self._handle, factor))

    def set_document(self, option: str, document: bytes) -> None:
        """Set an option whose value is a document: `key_alt_name`, `algorithm_range` or another of the library's."""
        self._check(getattr(lib, f"mongocrypt_ctx_setopt_{option}")(self._handle, _binary(document)))

    # Beginning.

    def begin(self, what: str, document: bytes | None = None) -> None:
        """Begin an operation, named as in the library: `explicit_encrypt`, `explicit_decrypt`, `datakey`, …"""
        documents = () if document is None else (_binary(document),)
        self._check(getattr(lib, f"mongocrypt_ctx_{what}_init")(self._handle, *documents))

    def begin_decrypting(self, message: bytes) -> None:
        """Begin to decrypt the values of a reply."""
        self._check(lib.mongocrypt_ctx_decrypt_init(self._handle, _binary(message)))

    def begin_encrypting(self, database: str, command: bytes) -> None:
        """Begin to encrypt the fields of a command according to the collection's schema."""
        self.database = database
        name = database.encode()
        self._check(lib.mongocrypt_ctx_encrypt_init(self._handle, name, len(name), _binary(command)))

    # Running.

    def question(self) -> bytes:
        """Return the filter or command whose result the context needs."""
        return self._out(lib.mongocrypt_ctx_mongo_op)

    def feed(self, document: bytes) -> None:
        """Feed one document of the result."""
        self._check(lib.mongocrypt_ctx_mongo_feed(self._handle, _binary(document)))

    def end_answer(self) -> None:
        """Mark the result as complete."""
        self._check(lib.mongocrypt_ctx_mongo_done(self._handle))

    def provide_credentials(self, providers: bytes) -> None:
        """Provide the credentials that were found."""
        self._check(lib.mongocrypt_ctx_provide_kms_providers(self._handle, _binary(providers)))

    def kms_requests(self) -> Iterator[KmsRequest]:
        """Yield the requests to key management services, one after another; a failed one may be repeated."""
        while (handle := lib.mongocrypt_ctx_next_kms_ctx(self._handle)) != _NULL:
            yield KmsRequest(handle)

    def end_kms(self) -> None:
        """Mark all requests as answered."""
        self._check(lib.mongocrypt_ctx_kms_done(self._handle))

    def result(self) -> bytes:
        """Return the processed value or message. Only in the state READY."""
        return self._out(_finalize)

    def _out(self, function: Any) -> bytes:
        binary = ffi.new(_BINARY)
        self._check(function(self._handle, binary))
        return ffi.buffer(binary.data, binary.len)[:]


class KmsRequest:
    """One request to a key management service. Its bytes may hold credentials or a key: keep them out of locals."""

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
        return ffi.string(found[0]).decode()

    @property
    def provider(self) -> str:
        """The name of the provider in the providers' document."""
        return ffi.string(lib.mongocrypt_kms_ctx_get_kms_provider(self._handle, _NULL)).decode()

    @property
    def delay(self) -> float:
        """Seconds to wait before sending, because the service requested a delay or an attempt failed."""
        return lib.mongocrypt_kms_ctx_usleep(self._handle) / 1e6

    @property
    def message(self) -> bytes:
        """The bytes to send."""
        binary = ffi.new(_BINARY)
        self._check(lib.mongocrypt_kms_ctx_message(self._handle, binary))
        return ffi.buffer(binary.data, binary.len)[:]

    @property
    def missing(self) -> int:
        """How many bytes of the response to feed next; 0 when it is complete."""
        return lib.mongocrypt_kms_ctx_bytes_needed(self._handle)

    def feed(self, data: bytes) -> None:
        """Feed bytes of the response, at most `missing`.

        Raises:
            MongoCryptError: the bytes are not a response, or a refusal, or too many.
        """
        self._left -= len(data)
        if self._left < 0:
            raise MongoCryptError("the answer is longer than 1 MiB")
        self._check(lib.mongocrypt_kms_ctx_feed(self._handle, _binary(data)))

    def fail(self) -> None:
        """Report a network failure.

        Raises:
            MongoCryptError: no attempts are left.
        """
        self._check(lib.mongocrypt_kms_ctx_fail(self._handle))


def _binary(data: bytes) -> Any:
    """Return a view of `data`, which must outlive the view. The library copies bytes that it needs for longer."""
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
