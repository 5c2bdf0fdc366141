"""The authorities and proxies that the environment names, for clients that do not look themselves.

httpx and aiohttp read `SSL_CERT_FILE` as OpenSSL does; requests, urllib3 and botocore do not.
Datadog's client reads no proxy either, and Slack's no `NO_PROXY`.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


def ca_file_of_environment(*before: str) -> str | None:
    """The file of authorities to trust instead of the client's own; None where none is named.

    `before` are variables of the client's own, which win over `SSL_CERT_FILE`.
    """
    for variable in (*before, "SSL_CERT_FILE"):
        if os.environ.get(variable):
            return os.environ[variable]
    return None


def proxy_of_environment(url: str) -> str | None:
    """The proxy for an address: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, but for hosts of
    `NO_PROXY`."""
    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or ""):
        return None
    proxies = getproxies()
    scheme = {"wss": "https", "ws": "http"}.get(parts.scheme, parts.scheme)
    proxy = proxies.get(scheme) or proxies.get("all")
    if proxy and "://" not in proxy:
        proxy = f"http://{proxy}"
    return proxy
