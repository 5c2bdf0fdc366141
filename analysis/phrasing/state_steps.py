"""What to do about an object's own state: the object, and the command that shows or mends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from faultline.analysis.phrasing.state_details import (
    image_named,
    missing_key,
    missing_object,
    no_room,
    node_shortage,
    probe_answer,
    pull_refusal,
    quota_used,
)
from faultline.analysis.phrasing.state_forms import ObjectState


def _restored(state: ObjectState, who: str) -> str | None:
    place = f" in namespace {state.namespace}" if state.namespace else ""
    key = missing_key(state.value)
    if key is not None:
        return (
            f"Add key {key[0]} to {key[1]} {key[2]}{place}, or take it out of the pod template of "
            f"{who}."
        )
    absent = missing_object(state.value)
    if absent is None:
        return None
    return (
        f"Restore {absent[0]} {absent[1]}{place}, or correct its name in the pod template of {who}."
    )


_AFTER_A_REFUSAL: Mapping[str, str] = {
    "the registry refuses its credentials": "Renew the pull secret of {who}, or the rights of its "
    "nodes: the registry refuses them image {image}.",
    "there is no such image": "Push image {image}, or set {who} to a tag that exists.",
    "the registry limits how often it pulls": "Log in to the registry, or pull image {image} from "
    "a mirror: its limit for pulls is reached.",
    "the registry can't be reached": "Check the way from the nodes of {who} to the registry of "
    "{image}: its name, NAT, firewalls, endpoints.",
    "the registry's certificate is not trusted": "Make the nodes of {who} trust the certificate "
    "of the registry of {image}.",
}


def _image(state: ObjectState, who: str) -> str | None:
    image = image_named(state.value)
    if not image:
        return None
    step = _AFTER_A_REFUSAL.get(pull_refusal(state.value))
    if step is None:
        return f"Check that image {image} exists, and that {who} may pull it."
    return step.format(who=who, image=image)


def _volume(state: ObjectState, who: str) -> str | None:
    absent = missing_object(state.value)
    if absent is None:
        return None
    return f"Create {absent[0]} {absent[1]}, or name one that exists in {state.whole}."


def _full_volume(state: ObjectState, who: str) -> str | None:
    if state.kind != "PersistentVolumeClaim":
        return None
    return f"Free space on {state.whole}, or make it larger."


def _quota(state: ObjectState, who: str) -> str | None:
    if not quota_used(state.value):
        return None
    return f"Raise {state.whole}, or scale down what uses it up."


def _limit_range(state: ObjectState, who: str) -> str | None:
    if not state.value:
        return None
    return (
        f"Change what the refused pods ask for, or the limit range of namespace {state.namespace}: "
        f"{state.value}."
    )


def _port(state: ObjectState, who: str) -> str | None:
    if not state.value or not state.expected:
        return None
    return (
        f"Set the targetPort of {state.whole} to a port that its containers serve "
        f"({state.expected})."
    )


def _policy(state: ObjectState, who: str) -> str | None:
    if not state.value or not state.expected:
        return None
    return f"Allow calls from {state.value} to {state.expected} in {state.whole} again."


def _route(state: ObjectState, who: str) -> str | None:
    if not state.value:
        return None
    return f"Correct the backend of {state.whole}: {state.value} does not exist."


def _certificate(state: ObjectState, who: str) -> str | None:
    if not state.namespace:
        return f"Renew {state.object}, and find out why its issuer did not."
    if state.kind != "Certificate":
        return None
    return (
        f"Renew {state.whole}, and read why its renewal failed: kubectl describe "
        f"certificate,order,challenge -n {state.namespace}."
    )


def crash_step(state: ObjectState, who: str) -> str | None:
    """Where a crashed container's last lines are read."""
    if state.kind != "Pod" or not state.namespace:
        return None
    return (
        "Read its last lines before the crash: kubectl logs --previous -n "
        f"{state.namespace} {state.name}."
    )


def _described(state: ObjectState) -> str:
    return f"kubectl describe {state.kind.lower()} -n {state.namespace} {state.name}"


def _start(state: ObjectState, who: str) -> str | None:
    if state.kind != "Pod" or not state.namespace:
        return None
    return f"Give {who} what it waits for: {_described(state)} shows the container that waits."


def _liveness(state: ObjectState, who: str) -> str | None:
    if not probe_answer(state.value) or not state.namespace:
        return None
    return (
        f"Give {who} more time to start (a startup probe, failureThreshold) or to answer "
        f"(timeoutSeconds): {_described(state)} shows what its probe allows."
    )


def _readiness(state: ObjectState, who: str) -> str | None:
    answer = probe_answer(state.value)
    if not answer or not state.namespace:
        return None
    if answer in ("HTTP 404", "HTTP 405"):
        return (
            f"Correct the path of the readiness probe of {who}, or serve it again: it gets "
            f"{answer} ({_described(state)})."
        )
    return f"Find out why {who} answers its readiness probe with {answer}: {_described(state)}."


def _room(state: ObjectState, who: str) -> str | None:
    why = no_room(state.value)
    if not why or state.kind != "Pod":
        return None
    if "volume node affinity" in why:
        return (
            f"Add a node in the zone of the volume of {state.name}: a volume cannot be mounted in "
            f"another zone ({_described(state)})."
        )
    if "nsufficient" in why or "oo many pods" in why:
        return f"Add nodes for {who}, or lower what its pods request: no node has room ({why})."
    return None


def _maximum(state: ObjectState, who: str) -> str | None:
    if not state.value or state.kind != "HorizontalPodAutoscaler":
        return None
    return f"Raise maxReplicas of {state.whole} ({state.value}), or shed requests to {who}."


def _blind(state: ObjectState, who: str) -> str | None:
    if state.kind != "HorizontalPodAutoscaler" or not state.namespace:
        return None
    return (
        f"Scale {who} by hand, and mend what serves the metrics of its autoscaler: "
        f"kubectl describe hpa -n {state.namespace} {state.name}."
    )


def _job(state: ObjectState, who: str) -> str | None:
    if state.kind != "Job" or not state.namespace:
        return None
    return f"Read why it failed: kubectl logs -n {state.namespace} job/{state.name}."


def _node(state: ObjectState, who: str) -> str | None:
    if state.kind != "Node":
        return None
    return f"Drain {who} (kubectl drain {who}), then look at its kubelet, network and machine."


def _resolver(state: ObjectState, who: str) -> str:
    return (
        f"Check the name servers behind {who}: their log, memory and upstream servers (in "
        "Kubernetes: kubectl get pods -n kube-system -l k8s-app=kube-dns)."
    )


_AGAINST_A_SHORTAGE: Mapping[str, str] = {
    "clock": "Repair the time synchronisation of {who} (chronyc tracking), and keep pods off it "
    "until then.",
    "connection tracking": "Raise net.netfilter.nf_conntrack_max on {who}, or find out which of "
    "its pods opens so many connections.",
    "memory": "See which pods use the memory of {who} (kubectl describe node {who}), and move or "
    "limit them.",
    "disk": "Free disk space on {who}: images, logs, emptyDir volumes (kubectl describe node "
    "{who}).",
    "the space on": "Free disk space on {who}: images, logs, emptyDir volumes (kubectl describe "
    "node {who}).",
}


def _pressure(state: ObjectState, who: str) -> str | None:
    shortage = node_shortage(state.value)
    for word, step in _AGAINST_A_SHORTAGE.items():
        if word in shortage:
            return step.format(who=who)
    return None


STATE_STEPS: Mapping[str, Callable[[ObjectState, str], str | None]] = {
    "reference_missing": _restored,
    "image_unavailable": _image,
    "volume_unavailable": _volume,
    "volume_full": _full_volume,
    "quota_exceeded": _quota,
    "limit_range_refused": _limit_range,
    "port_not_served": _port,
    "traffic_blocked": _policy,
    "route_to_nothing": _route,
    "certificate_expired": _certificate,
    "start_blocked": _start,
    "crash_loop": crash_step,
    "crashed": crash_step,
    "liveness_failing": _liveness,
    "readiness_failing": _readiness,
    "unschedulable": _room,
    "placement_impossible": _room,
    "autoscaler_at_maximum": _maximum,
    "autoscaler_blind": _blind,
    "job_failed": _job,
    "name_resolution_failing": _resolver,
    "node_not_ready": _node,
    "node_under_pressure": _pressure,
}
"""By fact: the step, or None where the words name nothing that the fault's general step does
not."""
