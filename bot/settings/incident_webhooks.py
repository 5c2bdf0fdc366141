"""Settings of incident managers whose signed webhooks start investigations."""

from __future__ import annotations

from faultline.connectors.shared.settings.settings_types import Secrets, Section


class IncidentIoSettings(Section):
    """Incidents of incident.io in: docs/connectors/incident-io.md."""

    webhook_secrets: Secrets = ()
    """Secret. Signing secrets of webhook endpoints (`whsec_...`). During a rotation several,
    separated by commas."""


class RootlySettings(Section):
    """Incidents and alerts of Rootly in: docs/connectors/rootly.md."""

    webhook_secrets: Secrets = ()
    """Secret. Signing secrets of webhook endpoints. During a rotation several, separated by
    commas."""
