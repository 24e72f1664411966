"""TLS for engines whose clients leave its setup to the caller: URL options, and advice about refused certificates.

MongoDB's driver and PostgreSQL's clients read their own options; the other stores use MongoDB's names. Certificate and
host name are always verified: there is no option to disable that. Knows no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mangonel.websessions.errors import UsageError
from mangonel.websessions.stores.urls import StoreURL, flag, hide_password

if TYPE_CHECKING:
    import ssl

__all__ = ["TLSFiles", "advice", "take_tls"]


class TLSFiles:
    """The TLS options of a URL.

    Attributes:
        ca: file of the authorities that are trusted to sign the server's certificate. None: the system's.
        pair: file of a client certificate and its key. None: none.
    """

    def __init__(self, ca: str | None, pair: str | None) -> None:
        self.ca = ca
        self.pair = pair
        self.context()  # an unusable file is reported at the start

    def context(self) -> ssl.SSLContext:
        """Return a context that verifies certificate and host name.

        Raises:
            UsageError: a file does not exist, or has other contents.
        """
        import ssl

        option, path = "tlsCAFile", self.ca
        try:
            context = ssl.create_default_context(cafile=self.ca)
            option, path = "tlsCertificateKeyFile", self.pair
            if self.pair is not None:
                context.load_cert_chain(self.pair)
        except OSError as error:  # includes SSLError
            what = "certificates" if option == "tlsCAFile" else "a certificate and its key"
            raise UsageError(f"expected {option} as a file of {what} in PEM, got {path!r}: {error}") from None
        return context


def take_tls(url: StoreURL, *, secure: bool = False) -> TLSFiles | None:
    """Remove `tls`, `tlsCAFile` and `tlsCertificateKeyFile` from a store's URL. None: no TLS.

    Args:
        secure: whether the URL's scheme requires TLS.

    Raises:
        UsageError: they contradict each other or the scheme, or a file cannot be used.
    """
    asked = url.take("tls", None, flag)
    ca, pair = url.take("tlsCAFile"), url.take("tlsCertificateKeyFile")
    if asked is False and (secure or ca or pair):
        with_it = f"the scheme {url.scheme}" if secure else "tlsCAFile" if ca else "tlsCertificateKeyFile"
        raise UsageError(f"expected tls=1 or no tls with {with_it} in the store's URL, got tls=0")
    return TLSFiles(ca, pair) if asked or secure or ca or pair else None


def advice(error: BaseException, url: Any) -> str:
    """Return the fault and the remedy if a store failed because of its server's certificate; otherwise "".

    Args:
        url: the store's URL; anything else names no server.
    """
    found = _refusal(error)
    if not found:
        return ""
    place, option, authorities = "the server", "tlsCAFile", "the system's authorities"
    if isinstance(url, str):
        parsed = StoreURL(url)
        option = "sslrootcert" if parsed.scheme.startswith("postgres") else option
        place = hide_password(parsed.without_query())
        # MongoDB's options are case-insensitive.
        named = {name.lower(): value for name, value in parsed.options.items()}.get(option.lower())
        authorities = f"{option}={named}" if named else authorities
    return (
        f"expected from {place} a certificate for that host, signed by {authorities}, got one that does not verify "
        f"({found}); give {option}= the file of the authority that signed it, or call the host as its certificate does"
    )


def _refusal(error: BaseException) -> str:
    """Return why the certificate was refused, from the innermost error; "" for other errors."""
    chain: list[BaseException] = [error]
    found = ""
    for each in chain:
        told = getattr(each, "verify_message", "")
        if told:
            return str(told)
        text = str(each).lower()
        if "certificate" in text and "verif" in text:
            found = "certificate verify failed"
        chain += [other for other in (each.__cause__, each.__context__) if other and other not in chain]
    return found
