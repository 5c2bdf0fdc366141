"""Argo CD: syncs of applications."""

from connectors.argocd.settings import ArgoCDSettings
from connectors.connector_type import ConnectorType, Listing

CONNECTOR = ConnectorType(
    name="argocd",
    settings=ArgoCDSettings,
    build="connectors.argocd.connector:build",
    kinds=("changes",),
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
