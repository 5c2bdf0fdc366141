"""Settings of Jaeger."""

from __future__ import annotations

from pydantic import SecretStr

from connectors.settings_types import Section, Url


class JaegerSettings(Section):
    """Jaeger as a source of traces and of who calls whom: docs/connectors/jaeger.md."""

    url: Url | None = None
    """Base of the query service, as in its pages. Unset: Jaeger is not asked."""
    token: SecretStr | None = None
    """Secret. Bearer token; with `username` the password of Basic authentication."""
    username: str | None = None
    """User name of Basic authentication."""
    public_url: Url | None = None
    """Base of links, where people reach Jaeger by another address than `url`."""
