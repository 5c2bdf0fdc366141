"""Settings of Jaeger."""

from __future__ import annotations

from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Url


class JaegerSettings(SelfHostedSettings):
    """Jaeger as a source of traces and dependencies: docs/connectors/jaeger.md."""

    url: Url | None = None
    """Base of the query service, as in its pages. Unset: Jaeger is not used."""
    public_url: Url | None = None
    """Base of links, if people reach Jaeger at another address than `url`."""
