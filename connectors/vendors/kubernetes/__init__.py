"""Kubernetes: events, rollouts, pods, nodes, and what routes to them or limits them."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr, model_validator

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Names, Url


class KubernetesSettings(ConnectorSettings):
    """A cluster as a source: events, rollouts, states of pods and nodes:
    docs/connectors/kubernetes.md."""

    url: Url | None = None
    """The API server, in a pod `https://kubernetes.default.svc`. Unset: Kubernetes is not used."""
    token: SecretStr | None = None
    """Secret. Token of a read-only service account. Unset: `token_file`."""
    token_file: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
    """A pod's token, read again for each investigation."""
    ca_file: Path | None = None
    """Certificate of the cluster's authority. Unset: the pod's if there is one, or else the
    system's."""
    kubeconfig: Path | None = None
    """A kubeconfig file, instead of `url`, `token` and `ca_file`: its address, authority, and
    token, client certificate or command (`exec`, as EKS, GKE and AKS have it)."""
    context: str | None = None
    """One of its contexts. Unset: its current one."""
    namespaces: Names = ()
    """Where to look for services without `services.NAME.kubernetes` by name, and for training jobs
    by their pods."""
    logs: bool = True
    """Whether to read container logs: the last lines of crashed containers, and the logs of a few
    pods of each service. Needs `get` on `pods/log`."""
    secrets: bool = False
    """Whether to read when the secrets that workloads use were written. Only their metadata is
    requested, but the right to list secrets lets a token read their values. So it is off by
    default, and not in the role that comes with Faultline."""
    helm: bool = False
    """Whether to read which releases Helm made of the workloads, from the labels of its secrets.
    Needs the right to list secrets, as `secrets` does, so it is off by default too."""
    without: Names = ()
    """Resources not to request, such as `["configmaps", "nodes"]`. What its role leaves out on
    purpose is then neither a gap in each investigation nor a failed check."""
    page: str | None = None
    """Pages of a dashboard, `https://headlamp.example.com/c/main/{kind}s/{namespace}/{name}`.
    Unset: no links."""

    @model_validator(mode="after")
    def _single_cluster(self) -> KubernetesSettings:
        if self.kubeconfig is not None and self.url is not None:
            raise ValueError("url and kubeconfig are both set: set only one of them")
        if self.context is not None and self.kubeconfig is None:
            raise ValueError("context needs kubeconfig")
        return self


CONNECTOR = ConnectorType(
    name="kubernetes",
    settings=KubernetesSettings,
    build="faultline.connectors.vendors.kubernetes.connector:build",
    kinds=("logs", "changes", "monitors", "states", "topology"),
    docs="kubernetes.md",
    listing=Listing(
        title="Kubernetes",
        login="pod's service account, kubeconfig",
        places="clusters and namespaces",
        permissions="a role that lists, without secrets",
        tested_against="a stand-in after its API reference",
        also="state of objects",
    ),
)
