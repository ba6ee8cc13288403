"""PEM files of a connection as what a JVM trusts and shows. Iceberg's client takes the JVM's own
(`useSystemProperties`), so they hold for every connection that it opens from then on, besides what
it trusts anyway. Nothing is written to a disk, and nothing stands on a command line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from firnline_domain.errors import Misconfigured

from firnline_iceberg.connection import properties as words
from firnline_iceberg.connection.connection import CatalogConnection

_ALGORITHMS = {RSAPrivateKey: "RSA", EllipticCurvePrivateKey: "EC", Ed25519PrivateKey: "Ed25519"}


def use_tls(jvm: Any, connection: CatalogConnection) -> None:
    """Set up TLS before the catalog's client is built. Raises Misconfigured for a file that is
    none."""
    given = connection.properties
    bundle, cert = given.get(words.CA_BUNDLE), given.get(words.CLIENT_CERT)
    if bundle is None and cert is None:
        return
    try:
        trusts = None if bundle is None else _trust_managers(jvm, Path(bundle).read_bytes())
        shows = None
        if cert is not None:
            key = given.get(words.CLIENT_KEY, cert)
            shows = _key_managers(jvm, Path(cert).read_bytes(), Path(key).read_bytes())
    except (OSError, ValueError, TypeError, StopIteration) as error:
        raise Misconfigured(f"[catalogs.{connection.name}] ssl: {error}") from None
    context = jvm.javax.net.ssl.SSLContext.getInstance("TLS")
    context.init(shows, trusts, None)
    jvm.javax.net.ssl.SSLContext.setDefault(context)


def _trust_managers(jvm: Any, pem: bytes) -> Any:
    """Return Java's TrustManager[]: its own authorities, and those of the file."""
    store = _empty_key_store(jvm)
    factory = jvm.javax.net.ssl.TrustManagerFactory
    known = factory.getInstance(factory.getDefaultAlgorithm())
    known.init(None)
    number = 0
    for manager in known.getTrustManagers():
        for authority in manager.getAcceptedIssuers():
            store.setCertificateEntry(f"known-{number}", authority)
            number += 1
    for authority in _read_certificates(jvm, pem):
        store.setCertificateEntry(f"ours-{number}", authority)
        number += 1
    made = factory.getInstance(factory.getDefaultAlgorithm())
    made.init(store)
    return made.getTrustManagers()


def _key_managers(jvm: Any, certificate: bytes, key: bytes) -> Any:
    """Return Java's KeyManager[]."""
    private = load_pem_private_key(key, password=None)
    encoded = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    spec = jvm.java.security.spec.PKCS8EncodedKeySpec(encoded)
    kind = next(name for type_, name in _ALGORITHMS.items() if isinstance(private, type_))
    made = jvm.java.security.KeyFactory.getInstance(kind).generatePrivate(spec)
    certificates = _certificate_array(jvm, list(_read_certificates(jvm, certificate)))
    store = _empty_key_store(jvm)
    nothing = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Character.TYPE, 0)
    store.setKeyEntry("client", made, nothing, certificates)
    factory = jvm.javax.net.ssl.KeyManagerFactory
    managers = factory.getInstance(factory.getDefaultAlgorithm())
    managers.init(store, nothing)
    return managers.getKeyManagers()


def _read_certificates(jvm: Any, pem: bytes) -> Any:
    factory = jvm.java.security.cert.CertificateFactory.getInstance("X.509")
    return factory.generateCertificates(jvm.java.io.ByteArrayInputStream(pem))


def _empty_key_store(jvm: Any) -> Any:
    store = jvm.java.security.KeyStore.getInstance("PKCS12")  # in memory alone
    store.load(None, None)
    return store


def _certificate_array(jvm: Any, chain: list[Any]) -> Any:
    kind = jvm.java.lang.Class.forName("java.security.cert.Certificate")
    found = jvm.java.lang.reflect.Array.newInstance(kind, len(chain))
    for number, one in enumerate(chain):
        found[number] = one
    return found
