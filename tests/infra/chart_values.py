"""Ways to install the chart: what the tests render."""

from __future__ import annotations

from typing import Any

PUBLIC = {"server": {"public_url": "https://faultline.example.com"}}
DATABASE = {"FAULTLINE_STORE__DATABASE": "postgresql://faultline:secret@db:5432/faultline"}
POSTGRESQL: dict[str, Any] = {
    "database": "postgresql",
    "settings": {**PUBLIC, "store": {"cases": "s3://acme-faultline-cases/faultline"}},
    "secrets": {
        "server": {"existingSecret": "faultline-server-secrets"},
        "worker": {"existingSecret": "faultline-worker-secrets"},
    },
}
PLAIN: dict[str, Any] = {
    **POSTGRESQL,
    "settings": {
        "server": {**PUBLIC["server"], "trusted_proxies": ["10.0.8.0/24"]},
        "store": POSTGRESQL["settings"]["store"],
        "slack": {"alert_channels": ["C0123456789"], "channel": "C0123456789"},
    },
    "ingress": {"enabled": True},
}
"""What infra/kubernetes/faultline.yaml installs."""

INSTALLATIONS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "sqlite with secrets and an ingress": {
        "settings": PUBLIC,
        "secrets": {
            "server": {"data": {"FAULTLINE_SERVER__ACCESS_TOKEN": 'a "quoted": token # 1'}},
            "worker": {"data": {"FAULTLINE_GITHUB__TOKEN": "123"}},
        },
        "ingress": {"enabled": True, "className": "nginx"},
        "persistence": {"storageClass": "fast", "size": "5Gi"},
    },
    "sqlite on a claim, reading the cluster": {
        "persistence": {"existingClaim": "mine"},
        "clusterRead": {"enabled": True},
        "secrets": {"worker": {"existingSecret": "vendors"}},
    },
    "postgresql": POSTGRESQL,
    "as the plain manifest": PLAIN,
    "postgresql with its own secrets and many workers": {
        **POSTGRESQL,
        "secrets": {"server": {"data": DATABASE}, "worker": {"data": DATABASE}},
        "server": {"replicas": 3, "spool": "10Gi"},
        "worker": {"replicas": 12, "nodeSelector": {"pool": "work"}},
        "clusterRead": {"enabled": True, "namespaces": ["shop", "payments"]},
        "serviceAccounts": {
            "worker": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/f"}}
        },
    },
    "everything else": {
        **POSTGRESQL,
        "image": {"repository": "ghcr.io/acme/faultline", "digest": "sha256:" + "a" * 64},
        "imagePullSecrets": [{"name": "registry"}],
        "networkPolicy": {"enabled": False},
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "podAnnotations": {"acme.example/owner": "sre"},
        "service": {"type": "LoadBalancer", "port": 8080, "annotations": {"a": "b"}},
        "extraEnv": [{"name": "SSL_CERT_FILE", "value": "/authority/ca.pem"}],
        "extraVolumes": [{"name": "authority", "configMap": {"name": "acme-ca"}}],
        "extraVolumeMounts": [{"name": "authority", "mountPath": "/authority", "readOnly": True}],
        "server": {"tolerations": [{"key": "spot", "operator": "Exists"}]},
        "worker": {"affinity": {"podAntiAffinity": {}}},
    },
}
