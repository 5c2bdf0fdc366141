"""What to do about an object's own state: the object, and the command that shows or mends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import Formatter

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

_LAST_LINES = "Read its last lines before the crash: kubectl logs --previous -n {namespace} {name}."
_FORMS: Mapping[tuple[str, str], str] = {
    ("PersistentVolumeClaim", "volume_full"): "Free space on {whole}, or make it larger.",
    ("LimitRange", "limit_range_refused"): "Change what the refused pods ask for, or the limit "
    "range of namespace {namespace}: {value}.",
    ("Webhook", "webhook_unanswered"): "Bring back what serves webhook {name} ({value}), or set "
    "its failurePolicy to Ignore meanwhile.",
    ("Application", "sync_failed"): "Correct in Git what the sync of {name} is refused for: "
    "{value}.",
    ("Webhook", "webhook_denied"): "Change the refused pods, or the policy behind webhook {name} "
    "that denies them: {value}.",
    ("Service", "port_not_served"): "Set the targetPort of {whole} to a port that its containers "
    "serve ({expected}).",
    ("NetworkPolicy", "traffic_blocked"): "Allow calls from {value} to {expected} in {whole} "
    "again.",
    ("", "route_to_nothing"): "Correct the backend of {whole}: {value} does not exist.",
    ("", "certificate_expired"): "Renew {object}, and find out why its issuer did not.",
    ("Certificate", "certificate_expired"): "Renew {whole}, and read why its renewal failed: "
    "kubectl describe certificate,order,challenge -n {namespace}.",
    ("Pod", "start_blocked"): "Give {who} what it waits for: {describe} shows the container that "
    "waits.",
    ("Pod", "crash_loop"): _LAST_LINES,
    ("Pod", "crashed"): _LAST_LINES,
    ("Pod", "liveness_failing"): "Give {who} more time to start (a startup probe, "
    "failureThreshold) or to answer (timeoutSeconds): {describe} shows what its probe allows.",
    ("HorizontalPodAutoscaler", "autoscaler_at_maximum"): "Raise maxReplicas of {whole} ({value}), "
    "or shed requests to {who}.",
    ("HorizontalPodAutoscaler", "autoscaler_blind"): "Scale {who} by hand, and mend what serves "
    "the metrics of its autoscaler: kubectl describe hpa -n {namespace} {name}.",
    ("Job", "job_failed"): "Read why it failed: kubectl logs -n {namespace} job/{name}.",
    ("Node", "node_not_ready"): "Drain {who} (kubectl drain {who}), then look at its kubelet, "
    "network and machine.",
    ("Resolver", "name_resolution_failing"): "Check the name servers behind {who}: their log, "
    "memory and upstream servers (in Kubernetes: kubectl get pods -n kube-system -l "
    "k8s-app=kube-dns).",
}
"""By kind of object (empty: any) and fact. A form with a slot that the state leaves empty is not
used."""
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
_FREE_DISK = (
    "Free disk space on {who}: images, logs, emptyDir volumes (kubectl describe node {who})."
)
_AGAINST_A_SHORTAGE: Mapping[str, str] = {
    "clock": "Repair the time synchronisation of {who} (chronyc tracking), and keep pods off it "
    "until then.",
    "connection tracking": "Raise net.netfilter.nf_conntrack_max on {who}, or find out which of "
    "its pods opens the connections.",
    "memory": "See which pods use the memory of {who} (kubectl describe node {who}), and move or "
    "limit them.",
    "disk": _FREE_DISK,
    "the space on": _FREE_DISK,
}


def state_step(state: ObjectState, who: str) -> str | None:
    """The step; None where the words name nothing that the fault's general step does not."""
    slots = {
        "who": who,
        "object": state.object,
        "whole": state.whole,
        "namespace": state.namespace,
        "name": state.name,
        "value": state.value,
        "expected": state.expected,
        "describe": _described(state),
    }
    for kind in (state.kind, ""):
        form = _FORMS.get((kind, state.fact))
        if form is None:
            continue
        used = [slot for _, slot, _, _ in Formatter().parse(form) if slot]
        if all(slots[slot] for slot in used):
            return form.format(**slots)
    read = _READ.get(state.fact)
    return read(state, who) if read is not None else None


def _described(state: ObjectState) -> str:
    if not state.namespace:
        return ""
    return f"kubectl describe {state.kind.lower()} -n {state.namespace} {state.name}"


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
    if state.fact == "volume_unavailable":
        return f"Create {absent[0]} {absent[1]}, or name one that exists in {state.whole}."
    return (
        f"Restore {absent[0]} {absent[1]}{place}, or correct its name in the pod template of {who}."
    )


def _image(state: ObjectState, who: str) -> str | None:
    image = image_named(state.value)
    if not image:
        return None
    step = _AFTER_A_REFUSAL.get(pull_refusal(state.value))
    if step is None:
        return f"Check that image {image} exists, and that {who} may pull it."
    return step.format(who=who, image=image)


def _quota(state: ObjectState, who: str) -> str | None:
    if not quota_used(state.value):
        return None
    return f"Raise {state.whole}, or scale down what uses it up."


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


def _pressure(state: ObjectState, who: str) -> str | None:
    shortage = node_shortage(state.value)
    for word, step in _AGAINST_A_SHORTAGE.items():
        if word in shortage:
            return step.format(who=who)
    return None


_READ: Mapping[str, Callable[[ObjectState, str], str | None]] = {
    "reference_missing": _restored,
    "image_unavailable": _image,
    "volume_unavailable": _restored,
    "quota_exceeded": _quota,
    "readiness_failing": _readiness,
    "unschedulable": _room,
    "placement_impossible": _room,
    "node_under_pressure": _pressure,
}
"""By fact: steps that depend on what the connector's words name."""
