"""Settings of Ray."""

from __future__ import annotations

from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Url


class RaySettings(SelfHostedSettings):
    """A Ray cluster as a source of the state of jobs and nodes: docs/connectors/ray.md."""

    url: Url | None = None
    """Base of the dashboard. Unset: Ray is not asked."""
    public_url: Url | None = None
    """Base of links, if people reach the dashboard at another address than `url`."""
