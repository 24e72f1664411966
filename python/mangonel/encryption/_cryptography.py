"""Crypto callbacks for builds of libmongocrypt without native crypto.

If the library has the layout that the extension module expects (as in pymongocrypt 1.21), ciphers and hashes are
functions of the extension module. Otherwise they are Python functions over the standard library and the package
`cryptography`, which are also the specification of the native ones. Signatures are always made in Python. Callbacks
write errors into the caller's status object, without the values that caused them.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from pymongocrypt.binding import ffi, lib

from mangonel import _core

if TYPE_CHECKING:
    from collections.abc import Callable

_buffer = ffi.buffer
_memmove = ffi.memmove


def _tell(kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
    if trace is not None:
        status = trace.tb_frame.f_locals["status"]
        text = f"cryptography failed: {'' if kind is None else kind.__name__}".encode()
        lib.mongocrypt_status_set(status, lib.MONGOCRYPT_STATUS_ERROR_CLIENT, 1, text, -1)
    return False


def _give(output: Any, data: bytes) -> None:
    _memmove(output.data, data, len(data))
    output.len = len(data)


def _bytes(binary: Any) -> bytes:
    return _buffer(binary.data, binary.len)[:]


def _callback(signature: str) -> Callable[[Callable[..., bool]], Any]:
    return ffi.callback(signature, onerror=_tell)


_CIPHER = (
    "bool(void *, mongocrypt_binary_t *, mongocrypt_binary_t *, mongocrypt_binary_t *, mongocrypt_binary_t *, "
    "uint32_t *, mongocrypt_status_t *)"
)
_KEYED = (
    "bool(void *, mongocrypt_binary_t *, mongocrypt_binary_t *, mongocrypt_binary_t *, mongocrypt_status_t *)"
)


def _cipher(mode: Any, direction: Callable[[Any], Any]) -> Any:
    @_callback(_CIPHER)
    def update(_: Any, key: Any, iv: Any, data: Any, output: Any, written: Any, status: Any) -> bool:
        cipher = direction(Cipher(algorithms.AES(_bytes(key)), mode(_bytes(iv))))
        # The library pads, so for CBC the data is a whole number of blocks.
        made = cipher.update(_buffer(data.data, data.len))
        _give(output, made)
        written[0] = len(made)
        return True

    return update


cbc_encrypt, cbc_decrypt = _cipher(modes.CBC, Cipher.encryptor), _cipher(modes.CBC, Cipher.decryptor)
# In this mode encryption and decryption are the same function.
ctr = _cipher(modes.CTR, Cipher.encryptor)


@_callback(_KEYED)
def hmac_sha_512(_: Any, key: Any, data: Any, output: Any, status: Any) -> bool:
    _give(output, hmac.digest(_buffer(key.data, key.len), _buffer(data.data, data.len), "sha512"))
    return True


@_callback(_KEYED)
def hmac_sha_256(_: Any, key: Any, data: Any, output: Any, status: Any) -> bool:
    _give(output, hmac.digest(_buffer(key.data, key.len), _buffer(data.data, data.len), "sha256"))
    return True


@_callback("bool(void *, mongocrypt_binary_t *, mongocrypt_binary_t *, mongocrypt_status_t *)")
def sha_256(_: Any, data: Any, output: Any, status: Any) -> bool:
    _give(output, hashlib.sha256(_buffer(data.data, data.len)).digest())
    return True


@_callback("bool(void *, mongocrypt_binary_t *, uint32_t, mongocrypt_status_t *)")
def secure_random(_: Any, output: Any, count: int, status: Any) -> bool:
    _give(output, os.urandom(count))
    return True


@_callback(_KEYED)
def sign_rsa(_: Any, key: Any, data: Any, output: Any, status: Any) -> bool:
    private: Any = serialization.load_der_private_key(_bytes(key), password=None)
    _give(output, private.sign(_bytes(data), padding.PKCS1v15(), hashes.SHA256()))
    return True


def install(crypt: Any) -> bool:
    """Install the callbacks in `crypt`; return whether the library accepted them."""
    found = compiled() if is_known() else PYTHON
    # The compiled callbacks need this function to write errors; the Python ones call it themselves.
    tell = ffi.cast("void *", ffi.addressof(lib, "mongocrypt_status_set"))
    hooks = [found[name] for name in ("cbc_encrypt", "cbc_decrypt")]
    hooks += [secure_random, *(found[name] for name in ("hmac_sha_512", "hmac_sha_256", "sha_256"))]
    is_well = lib.mongocrypt_setopt_crypto_hooks(crypt, *hooks, tell)
    is_well = is_well and lib.mongocrypt_setopt_crypto_hook_sign_rsaes_pkcs1_v1_5(crypt, sign_rsa, ffi.NULL)
    return bool(is_well and lib.mongocrypt_setopt_aes_256_ctr(crypt, found["ctr"], found["ctr"], tell))


PYTHON = {
    "cbc_encrypt": cbc_encrypt,
    "cbc_decrypt": cbc_decrypt,
    "ctr": ctr,
    "hmac_sha_512": hmac_sha_512,
    "hmac_sha_256": hmac_sha_256,
    "sha_256": sha_256,
}

_TYPES = {
    "sha_256": "mongocrypt_hash_fn",
    "hmac_sha_512": "mongocrypt_hmac_fn",
    "hmac_sha_256": "mongocrypt_hmac_fn",
}
_VIEW = "mongocrypt_binary_t *"
_STATUS = "mongocrypt_status_t *"
_KNOWN = {
    "mongocrypt_crypto_fn": ["void *", _VIEW, _VIEW, _VIEW, _VIEW, "uint32_t *", _STATUS],
    "mongocrypt_hmac_fn": ["void *", _VIEW, _VIEW, _VIEW, _STATUS],
    "mongocrypt_hash_fn": ["void *", _VIEW, _VIEW, _STATUS],
}


def compiled() -> dict[str, Any]:
    """Return the extension module's functions by the names in `PYTHON`. Call this only if `is_known` is true."""
    addresses = _core.crypto_functions()
    return {
        name: ffi.cast(_TYPES.get(name, "mongocrypt_crypto_fn"), address)
        for name, address in addresses.items()
    }


def is_known() -> bool:
    """Return whether the library's memory layout and functions match the extension module."""
    view = ffi.typeof("mongocrypt_binary_t")
    fields = [(name, field.offset, field.type.cname) for name, field in view.fields]
    pointer: int = ffi.sizeof("void *")
    return (
        fields == [("data", 0, "void *"), ("len", pointer, "uint32_t")]
        and ffi.sizeof(view) == 2 * pointer
        and all(
            [kind.cname for kind in ffi.typeof(name).args] == expected
            and ffi.typeof(name).result.cname in ("bool", "_Bool")
            for name, expected in _KNOWN.items()
        )
    )
