"""Objects of a Kubernetes API server in the documented shapes (kubernetes.io, API reference), and
lists of them.

No API server can be had from a package index, so this stands in for one: selectors by equality,
pages, metadata alone.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import Answerer, Asked, Reply

SPACE = "shop"
PAGE = 3
"""Objects per page, so that a few objects make several pages."""
ROLLED_OUT = ONSET - timedelta(minutes=2)
Object = dict[str, Any]


def utc(at: datetime) -> str:
    """As metav1.Time writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def meta(
    name: str, *, space: str | None = SPACE, at: datetime | None = None, **more: Any
) -> Object:
    """metav1.ObjectMeta."""
    made = utc(at or ALERT_AT - timedelta(days=30))
    own = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": made}
    return {**own, **({"namespace": space} if space else {}), **more}


def owned(kind: str, name: str) -> list[Object]:
    """metav1.OwnerReference."""
    return [
        {
            "apiVersion": "apps/v1",
            "kind": kind,
            "name": name,
            "uid": f"uid-{name}",
            "controller": True,
        }
    ]


def template(app: str, image: str, memory: str, env: Sequence[Object] = ()) -> Object:
    """A pod template."""
    container = {
        "name": "app",
        "image": image,
        "resources": {"limits": {"memory": memory, "cpu": "1"}, "requests": {"memory": memory}},
        "env": list(env),
        "envFrom": [{"configMapRef": {"name": f"{app}-config"}}],
        "readinessProbe": {
            "httpGet": {"path": "/ready", "port": 8080},
            "periodSeconds": 5,
            "failureThreshold": 3,
        },
    }
    return {
        "metadata": {"labels": {"app": app}, "creationTimestamp": None},
        "spec": {"containers": [container]},
    }


def workload(kind: str, name: str, made: Object, **more: Any) -> Object:
    """A Deployment, StatefulSet, DaemonSet or Job that selects by the label `app`."""
    spec = {"selector": {"matchLabels": {"app": name}}, "template": made, "replicas": 2}
    return {
        "metadata": meta(name, labels={"app": name}, **more),
        "spec": spec,
        "status": {"replicas": 2, "conditions": None},
    }


def replica_set(
    deployment: str, suffix: str, revision: int, made: Object, at: datetime, **notes: str
) -> Object:
    """A revision of a Deployment."""
    annotations = {"deployment.kubernetes.io/revision": str(revision), **notes}
    own = meta(
        f"{deployment}-{suffix}",
        at=at,
        labels={"app": deployment},
        annotations=annotations,
        ownerReferences=owned("Deployment", deployment),
    )
    return {
        "metadata": own,
        "spec": {"selector": {"matchLabels": {"app": deployment}}, "template": made},
    }


def pod(
    name: str, app: str, node: str, statuses: Sequence[Object], *, ready: bool = True, **more: Any
) -> Object:
    """A pod."""
    changed = utc(ONSET if not ready else ALERT_AT - timedelta(days=1))
    said = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": changed}
    said |= (
        {}
        if ready
        else {"reason": "ContainersNotReady", "message": "containers with unready status: [app]"}
    )
    status = {"phase": "Running", "conditions": [said], "containerStatuses": list(statuses), **more}
    return {
        "metadata": meta(name, labels={"app": app}),
        "spec": {"nodeName": node, "containers": [{"name": "app"}]},
        "status": status,
    }


def container(
    restarts: int = 0, *, ended: Object | None = None, waiting: Object | None = None
) -> Object:
    """A v1.ContainerStatus."""
    state = {"waiting": waiting} if waiting else {"running": {"startedAt": utc(ALERT_AT)}}
    last = {"terminated": ended} if ended else {}
    image = {"image": "registry.example.com/app:1", "imageID": "sha256:1"}
    return {
        "name": "app",
        "ready": waiting is None,
        "restartCount": restarts,
        "state": state,
        "lastState": last,
    } | image


def killed(at: datetime) -> Object:
    """The end of a container that used more memory than it may."""
    return {
        "exitCode": 137,
        "reason": "OOMKilled",
        "startedAt": utc(at),
        "finishedAt": utc(at),
        "containerID": "c",
    }


def event(
    kind: str, name: str, reason: str, note: str, first: datetime, last: datetime, count: int = 1
) -> Object:
    """An events.k8s.io/v1 Event as kubelets write it: the times in the deprecated fields, the
    others null."""
    return {
        "metadata": meta(f"{name}.{reason.lower()}"[:60], at=first),
        "eventTime": None,
        "series": None,
        "reason": reason,
        "type": "Normal"
        if reason in ("SuccessfulRescale", "ScalingReplicaSet", "Pulled")
        else "Warning",
        "note": note,
        "regarding": {"kind": kind, "namespace": SPACE if kind != "Node" else "", "name": name},
        "deprecatedSource": {"component": "kubelet", "host": "node-1"},
        "deprecatedFirstTimestamp": utc(first),
        "deprecatedLastTimestamp": utc(last),
        "deprecatedCount": count,
    }


def as_core(given: Object) -> Object:
    """The same event in core/v1."""
    names = {
        "regarding": "involvedObject",
        "note": "message",
        "deprecatedSource": "source",
        "deprecatedFirstTimestamp": "firstTimestamp",
        "deprecatedLastTimestamp": "lastTimestamp",
        "deprecatedCount": "count",
    }
    return {names.get(key, key): value for key, value in given.items()}


RUNS = {
    "kubeletVersion": "v1.34.2",
    "kernelVersion": "6.1.140",
    "containerRuntimeVersion": "containerd://2.1.4",
    "osImage": "Bottlerocket OS 1.50.0",
    "architecture": "amd64",
    "bootID": "b",
    "kubeProxyVersion": "",
    "machineID": "m",
    "operatingSystem": "linux",
    "systemUUID": "s",
}
"""What nodes run (v1.NodeSystemInfo)."""


def node(
    name: str, *, at: datetime | None = None, runs: Object | None = None, **bad: str
) -> Object:
    """A node; `bad` gives conditions another status, `runs` other software."""
    usual = {
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "True",
    }
    conditions = [
        {
            "type": kind,
            "status": bad.get(kind, status),
            "reason": "KubeletStatus",
            "message": f"kubelet says {kind}",
            "lastTransitionTime": utc(ONSET if kind in bad else ALERT_AT - timedelta(days=9)),
        }
        for kind, status in usual.items()
    ]
    status = {"conditions": conditions, "nodeInfo": {**RUNS, **(runs or {})}}
    labels = {"eks.amazonaws.com/nodegroup": "general"}
    return {"metadata": meta(name, space=None, at=at, labels=labels), "status": status}


def listed(objects: Sequence[Object]) -> Answerer:
    """Answers as a list does: selectors, pages, metadata alone where that is asked for."""

    def answer(asked: Asked) -> Reply:
        given = {key: values[0] for key, values in asked.query.items()}
        kept = [
            o
            for o in objects
            if _selected(o, given.get("labelSelector"), given.get("fieldSelector"))
        ]
        start = int(base64.b64decode(given["continue"])) if "continue" in given else 0
        size = min(PAGE, int(given.get("limit", 500)))
        shown, rest = kept[start : start + size], len(kept) - start - size
        if "PartialObjectMetadataList" in asked.headers.get("Accept", ""):
            shown = [{"metadata": o["metadata"]} for o in shown]
        more = base64.b64encode(str(start + size).encode()).decode() if rest > 0 else ""
        counted = {"remainingItemCount": rest} if rest > 0 else {}
        return Reply(
            {"items": shown, "metadata": {"resourceVersion": "7", "continue": more, **counted}}
        )

    return answer


LOG_PARAMETERS = frozenset(
    {"container", "timestamps", "previous", "sinceSeconds", "tailLines", "limitBytes"}
)
"""Those of `readCoreV1NamespacedPodLog` that this cluster understands."""


def written_log(
    lines: Sequence[tuple[datetime, str]], before: Sequence[tuple[datetime, str]] | None = None
) -> Answerer:
    """Answers as a kubelet does for one container: `before` are the lines of its previous run."""

    def answer(asked: Asked) -> Reply:
        given = {key: values[0] for key, values in asked.query.items()}
        assert set(given) <= LOG_PARAMETERS, given
        if "container" not in given:
            return refused(400, "a container name must be specified")
        told = before if given.get("previous") == "true" else lines
        if told is None:
            return refused(400, "previous terminated container not found")
        since = datetime.now(UTC) - timedelta(seconds=int(given.get("sinceSeconds", 10**9)))
        kept = [f"{at:%Y-%m-%dT%H:%M:%S}.123456789Z {line}\n" for at, line in told if at >= since]
        if "tailLines" in given:
            count = int(given["tailLines"])
            kept = kept[-count:] if count else []
        text = "".join(kept).encode()[: int(given.get("limitBytes", 1 << 30))]
        return Reply(text, headers={"Content-Type": "text/plain"})

    return answer


def _selected(given: Object, labels: str | None, fields: str | None) -> bool:
    own = given["metadata"].get("labels") or {}
    wanted = [pair.split("=", 1) for pair in (labels or "").split(",") if pair]
    named = [pair.split("=", 1) for pair in (fields or "").split(",") if pair]
    return all(own.get(k) == v for k, v in wanted) and all(_field(given, k) == v for k, v in named)


def _field(given: Mapping[str, Any], path: str) -> Any:
    for part in path.split("."):
        given = given.get(part) or {} if isinstance(given, Mapping) else {}
    return given


def refused(status: int, message: str) -> Reply:
    """A metav1.Status."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "code": status,
    }
    return Reply(json.dumps(body).encode(), status=status)
