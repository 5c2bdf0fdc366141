"""Settings of Jenkins."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, SecretStr

from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Names, Url


def _job_paths(value: tuple[str, ...]) -> tuple[str, ...]:
    for path in value:
        parts = path.split("/")
        if len(path) > 300 or not all(part.strip(". ") and part.isprintable() for part in parts):
            raise ValueError("must be paths of jobs, such as shop/checkout/main")
    return value


class JenkinsSettings(SelfHostedSettings):
    """Jenkins as a source of deployments and builds: docs/connectors/ci.md."""

    url: Url | None = None
    """Base of the server. Unset: Jenkins is not used."""
    token: SecretStr | None = None
    """Secret. API token of the user `username`."""
    jobs: Annotated[Names, AfterValidator(_job_paths)] = ()
    """Paths of the jobs to read, such as `shop/deploy-checkout`, or `shop/checkout/main` for a
    branch of a multibranch pipeline."""
    deploys: Names = ()
    """Names of the jobs that deploy. `*` stands for anything. Unset: those whose name says deploy,
    release, rollout and the like."""
