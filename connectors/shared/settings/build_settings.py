"""The keys that the sections of CI services share."""

from __future__ import annotations

from pydantic import SecretStr

from faultline.connectors.shared.settings.limits import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Names


class BuildSettings(ConnectorSettings):
    """The keys of all CI services."""

    token: SecretStr | None = None
    """Secret. Token that may read builds. Unset: it is not used."""
    branches: Names = ("main", "master")
    """Branches whose builds count."""
    deploys: Names = ()
    """Names of the pipelines that deploy. `*` stands for anything. Unset: those whose name says
    deploy, release, rollout and the like."""
    environments: Names = ()
    """Environments whose deployments count. Unset: all but those whose name says staging, test,
    development and the like."""
