"""A wire that speaks TLS to clients and none to a server: what stunnel does."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import trustme


@contextmanager
def tls_before(ca: trustme.CA, host: str, port: int, common_name: str) -> Iterator[int]:
    """The port where TLS is spoken, with a certificate of `ca` for localhost."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("localhost", "127.0.0.1", common_name=common_name).configure_cert(context)
    server = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                near, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=join, args=(near,), daemon=True).start()

    def join(near: socket.socket) -> None:
        with suppress(OSError):
            inside = context.wrap_socket(near, server_side=True)
            far = socket.create_connection((host, port))
            back = threading.Thread(target=copy, args=(far, inside), daemon=True)
            back.start()
            copy(inside, far)

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while found := source.recv(65_536):
                target.sendall(found)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server.getsockname()[1]
    finally:
        server.close()
