"""CI services: runs that deploy, and builds of the main branches."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import (
    ConnectorSettings,
    SelfHostedSettings,
)
from faultline.connectors.shared.settings.settings_types import Names, Url, plain_names


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


class BuildkiteSettings(BuildSettings):
    """Buildkite as a source of deployments and builds: docs/connectors/ci.md."""

    token: SecretStr | None = None
    """Secret. API access token with the scope `read_builds`. Unset: Buildkite is not used."""
    organization: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]{1,100}$")
    """The organization's slug."""
    pipelines: Annotated[Names, AfterValidator(plain_names)] = ()
    """Slugs of the pipelines to read. Unset: all that the token may read."""
    branches: Names = ()
    """Branches whose builds count. Unset: each pipeline's default branch."""
    url: Url = "https://api.buildkite.com"
    """The REST API."""


def _of_parts(count: int, problem: str) -> AfterValidator:
    """Names of that many plain parts, with a slash between two."""

    def checked(value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            parts = tuple(name.split("/"))
            if len(parts) != count:
                raise ValueError(problem)
            plain_names(parts)
        return value

    return AfterValidator(checked)


class CircleCISettings(BuildSettings):
    """CircleCI as a source of deployments and builds: docs/connectors/ci.md."""

    token: SecretStr | None = None
    """Secret. Personal API token of a user that may only view. Without it and `projects` CircleCI
    is not used."""
    projects: Annotated[
        Names, _of_parts(3, "must be slugs of projects, such as gh/acme/checkout")
    ] = ()
    """Slugs of the projects to read, such as `gh/acme/checkout`."""
    url: Url = "https://circleci.com"
    """The server."""
    app_url: Url = "https://app.circleci.com"
    """Base of links."""


class AzureDevOpsSettings(BuildSettings):
    """Azure DevOps as a source of deployments and builds: docs/connectors/ci.md."""

    token: SecretStr | None = None
    """Secret. Personal access token with the scopes Build (read) and Release (read). Without it,
    `organization` and `projects` Azure DevOps is not used."""
    organization: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]{1,100}$")
    """The organization, or the collection of a server of your own."""
    projects: Annotated[Names, AfterValidator(plain_names)] = ()
    """Names of the projects to read."""
    releases: bool = True
    """Whether to read deployments of classic releases. Needs the scope Release (read)."""
    url: Url = "https://dev.azure.com"
    """The server."""
    releases_url: Url = "https://vsrm.dev.azure.com"
    """The server of releases. On a server of your own the same as `url`."""


class BitbucketSettings(BuildSettings):
    """Bitbucket Cloud as a source of deployments and builds: docs/connectors/ci.md."""

    token: SecretStr | None = None
    """Secret. Access token with the permission to read pipelines. Without it and `repositories`
    Bitbucket is not used."""
    repositories: Annotated[Names, _of_parts(2, "must be workspace/repository")] = ()
    """Repositories to read, each `workspace/repository`."""
    url: Url = "https://api.bitbucket.org"
    """The API."""
    app_url: Url = "https://bitbucket.org"
    """Base of links."""


def _ci_service(
    title: str,
    settings: type[ConnectorSettings],
    login: str,
    places: str,
    permissions: str,
    tested_against: str = "a stand-in after its documentation",
) -> ConnectorType[ConnectorSettings]:
    """Its module is named as the connector, its class as the vendor writes its name."""
    vendor = title.replace(" ", "")
    name = vendor.lower()
    return ConnectorType(
        name=name,
        settings=settings,
        build=f"{__name__}.{name}:{vendor}.build",
        kinds=("changes",),
        docs="ci.md",
        listing=Listing(title, login, places, permissions, tested_against),
    )


JENKINS = _ci_service(
    "Jenkins",
    JenkinsSettings,
    "API token of a user",
    "none",
    "Overall/Read, Job/Read",
    "a stand-in after the published shapes",
)
BUILDKITE = _ci_service(
    "Buildkite", BuildkiteSettings, "API access token", "branches", "`read_builds`"
)
CIRCLECI = _ci_service(
    "CircleCI", CircleCISettings, "personal API token", "branches", "a user that may view"
)
AZUREDEVOPS = _ci_service(
    "Azure DevOps",
    AzureDevOpsSettings,
    "personal access token",
    "branches and stages",
    "Build (read), Release (read)",
    "a stand-in after the published specification",
)
BITBUCKET = _ci_service(
    "Bitbucket", BitbucketSettings, "access token", "branches and environments", "to read pipelines"
)
