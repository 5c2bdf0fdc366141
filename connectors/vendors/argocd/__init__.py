"""Argo CD: syncs of applications."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.argocd.settings import ArgoCDSettings

CONNECTOR = ConnectorType(
    name="argocd",
    settings=ArgoCDSettings,
    build="faultline.connectors.vendors.argocd.connector:build",
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
