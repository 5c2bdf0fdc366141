"""Settings of changes that whoever makes them reports to the bot."""

from __future__ import annotations

from faultline.connectors.shared.settings.settings_types import Secrets, Section


class ReportedChangesSettings(Section):
    """`POST /changes`: deployments, flags and anything else without a connector
    (docs/report-changes.md)."""

    tokens: Secrets = ()
    """Secret. Bearer tokens for reporting changes. Unset: none are accepted."""
