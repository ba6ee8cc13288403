"""TLS of what others call: the gateway and the console."""

from __future__ import annotations

import ssl

from firnline_domain.errors import Misconfigured

from firnline_adapters.config.settings import Setting

TLS_CERTIFICATE = Setting(
    "FIRNLINE_TLS_CERTIFICATE",
    "PEM file with the certificate chain of the gateway or console, which then serve HTTPS. "
    "Unset: HTTP.",
    None,
)
TLS_KEY = Setting("FIRNLINE_TLS_KEY", "PEM file with the private key of that certificate.", None)


def server_context(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """Return the TLS context; None without a certificate. Raises Misconfigured."""
    if not certificate:
        if key:
            raise Misconfigured(f"{TLS_KEY.variable} is set, and {TLS_CERTIFICATE.variable} is not")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, _no_password)
    except OSError as error:  # ssl.SSLError is one
        names = f"{TLS_CERTIFICATE.variable}={certificate}, {TLS_KEY.variable}={key}"
        raise Misconfigured(f"{names}: {error}") from None
    return context


def _no_password() -> str:
    """Return no password for an encrypted key: the terminal would be asked for it otherwise."""
    return ""


def url_scheme(context: ssl.SSLContext | None) -> str:
    """Return the scheme of the address that is shown."""
    return "https" if context else "http"
