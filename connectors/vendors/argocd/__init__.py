"""Argo CD: syncs of applications."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, SecretStr

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Names, Url, plain_names


class ArgoCDSettings(SelfHostedSettings):
    """Argo CD as a source of deployments: docs/connectors/argocd.md."""

    url: Url | None = None
    """Base of the server, as its pages have it. Unset: Argo CD is not used."""
    token: SecretStr | None = None
    """Secret. Token of an account or a project role that may get applications."""
    projects: Annotated[Names, AfterValidator(plain_names)] = ()
    """Names of projects to read. Unset: all that the token may read."""
    environments: Names = ()
    """Names of the destination clusters, or namespaces, that count. Unset: all but those whose name
    says staging, test, development and the like."""


CONNECTOR = ConnectorType(
    name="argocd",
    settings=ArgoCDSettings,
    build="faultline.connectors.vendors.argocd.connector:ArgoCD.build",
    kinds=("changes", "states"),
    docs="argocd.md",
    listing=Listing(
        title="Argo CD",
        login="token of an account or a project role",
        places="destination clusters and namespaces",
        permissions="`applications, get`",
        tested_against="a stand-in after the published specification",
        also="health of applications",
    ),
)
