"""One TLS context for all of a test process's HTTP clients.

Every `httpx.Client()` reads some hundred certificates into its own context, also for a server
that speaks plain HTTP on loopback. That is 40 ms of processor time, and the tests make thousands.
"""

from __future__ import annotations

import os
import ssl
import sys
from importlib import import_module
from typing import Any

CLIENTS = ("httpx", "httpx2")
"""The second is what the model's client brings."""


def share_default_context() -> None:
    """Let clients that verify in the default way share what they verify with."""
    for library in CLIENTS:
        if library in sys.modules:
            _share(import_module(f"{library}._transports.default"))


def _share(transports: Any) -> None:
    """A client with a context, a file or a certificate of its own keeps it; so does one that
    verifies nothing. Other certificates in the environment give another context."""
    create = transports.create_ssl_context
    made: dict[tuple[str | None, ...], ssl.SSLContext] = {}

    def shared(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
        if verify is not True or cert is not None:
            context: ssl.SSLContext = create(verify=verify, cert=cert, trust_env=trust_env)
            return context
        trusted = (os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        key = trusted if trust_env else ()
        if key not in made:
            made[key] = create(trust_env=trust_env)
        return made[key]

    transports.create_ssl_context = shared
