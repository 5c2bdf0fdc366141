"""What the words of a cluster's own programs (API server, kubelet, scheduler, autoscaler) name: the
object that is missing, why an image can't be pulled, what a node is short of."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from faultline.analysis.secrets.redaction import masked
from faultline.analysis.wording.phrases import plain

_ABSENT = re.compile(r"""\b(?P<kind>[a-z]+)(?:\.[a-z0-9.]+)? "(?P<name>[^"]{1,200})" not found""")
"""How the API server says that an object is not there: `configmap "settings" not found`,
`storageclass.storage.k8s.io "fast" not found`."""
_KEY = re.compile(
    r"(?i)couldn't find key (?P<key>[\w.-]{1,200}) in (?P<kind>configmap|secret) "
    r"(?:[\w.-]{1,80}/)?(?P<name>[\w.-]{1,200})"
)
"""As in the kubelet's `couldn't find key PRICE_URL in ConfigMap shop/orders-config`."""
_IMAGE = re.compile(r'image:? "(?P<image>[^"]{1,200})"')
"""As in the kubelet's `Back-off pulling image "..."`."""
_QUOTA = re.compile(
    r"used: (?P<what>[a-z.\-/]+)=(?P<used>[^,; ]+), limited: (?P=what)=(?P<limit>[^,; ]+)"
)
"""As in `exceeded quota: compute, requested: cpu=2, used: cpu=40, limited: cpu=40`."""
_REQUESTED = re.compile(
    r"requested: (?P<what>[a-z.\-/]+)=(?P<asked>[^,; ]+), used: (?P=what)=(?P<used>[^,; ]+), "
    r"limited: (?P=what)=(?P<limit>[^,; ]+)"
)
_EXIT = re.compile(r"exit code \d+")
_LAST_LINE = re.compile(r'its last line says "(?P<line>[^"]{1,300})"')
"""As the connector puts what a container wrote last behind how it ended."""
_LINE_SHOWN = 80
_NO_PROBE_ANSWER = re.compile(
    r"statuscode: \d{3}|connection refused|i/o timeout|context deadline exceeded|no such host"
    r"|timed? ?out"
)
"""How the kubelet says what a probe got (kubernetes/pkg/probe)."""
_PLACED = re.compile(r"^\d+/\d+ nodes are available: (?P<why>[^.]{1,300})")
"""As the scheduler sums up why no node takes a pod."""
_CONDITION = re.compile(r"(?:the condition )?(?P<what>Memory|Disk|PID)Pressure")
_KINDS: Mapping[str, str] = {
    "configmap": "ConfigMap",
    "secret": "Secret",
    "storageclass": "storage class",
    "persistentvolumeclaim": "volume claim",
    "serviceaccount": "service account",
    "priorityclass": "priority class",
}
_QUOTAS: Mapping[str, str] = {
    "requests.cpu": "requested CPU",
    "cpu": "requested CPU",
    "limits.cpu": "CPU limits",
    "requests.memory": "requested memory",
    "memory": "requested memory",
    "limits.memory": "memory limits",
    "requests.storage": "requested storage",
    "pods": "pods",
}
_PRESSURES: Mapping[str, str] = {
    "Memory": "is short of memory",
    "Disk": "is short of disk space",
    "PID": "is short of process IDs",
}
_REFUSALS: Mapping[str, re.Pattern[str]] = {
    "the registry refuses its credentials": re.compile(
        r"(?i)\b401\b|\b403\b|unauthorized|forbidden|no basic auth credentials|access denied"
        r"|authentication required|authorization failed|pull access denied"
    ),
    "the registry limits how often it pulls": re.compile(r"(?i)\b429\b|toomanyrequests"),
    "there is no such image": re.compile(r"(?i)not found|manifest unknown|no such manifest"),
    "the registry can't be reached": re.compile(
        r"(?i)i/o timeout|no such host|connection refused|deadline exceeded|tls handshake timeout"
        r"|server misbehaving|network is unreachable"
    ),
    "the registry's certificate is not trusted": re.compile(r"(?i)x509"),
}
"""Why a pull fails, by the words of containerd, Docker and the registries' HTTP API. In this order:
Docker Hub says "not found" of what it denies, and then adds that access is denied."""


def missing_object(text: str) -> tuple[str, str] | None:
    """Kind and name of the object that the API server did not find."""
    match = _ABSENT.search(text)
    if match is None:
        return None
    return _KINDS.get(match["kind"], match["kind"]), match["name"]


def missing_key(text: str) -> tuple[str, str, str] | None:
    """The key that is missing, and the kind and name of the object that should have it."""
    match = _KEY.search(text)
    if match is None:
        return None
    return match["key"], _KINDS[match["kind"].lower()], match["name"]


def image_named(text: str) -> str:
    """The image that cannot be pulled; empty where none is named."""
    match = _IMAGE.search(text)
    return match["image"] if match else ""


def pull_refusal(text: str) -> str:
    """Why an image can't be pulled; empty where the words don't say."""
    # The image's own name may hold any of the words.
    words = text.replace(image_named(text) or "\0", "")
    return next((why for why, pattern in _REFUSALS.items() if pattern.search(words)), "")


def image_and_reason(text: str) -> str:
    """The image that cannot be pulled, and why: "shop/web:v2: there is no such image"."""
    image = image_named(text)
    return ": ".join(filter(None, (image, pull_refusal(text)))) if image else ""


def quota_used(text: str) -> str:
    """What a quota has no more of: "requested CPU, 400 of 400"."""
    match = _QUOTA.search(text)
    if match is None:
        return ""
    return f"{_QUOTAS.get(match['what'], match['what'])}, {match['used']} of {match['limit']}"


def readable_quota(sentence: str) -> str:
    """A sentence with the API server's words on a quota as people say them."""
    # Only the API server's refusal of a quota is too terse to be read as a sentence.
    match = _REQUESTED.search(sentence)
    if match is None:
        return sentence
    what = _QUOTAS.get(match["what"], match["what"])
    phrase = (
        f"{match['used']} of {match['limit']} are in use, and one asks for {match['asked']} more"
    )
    return f"{sentence[: match.start()]}{what}: {phrase}{sentence[match.end() :]}"


def how_it_ended(text: str) -> str:
    """What a container wrote last, or else its exit code; empty where neither is known."""
    line = _LAST_LINE.search(text)
    if line is not None:
        return f"“{plain(masked(line['line']), _LINE_SHOWN)}”"
    match = _EXIT.search(text)
    return match[0] if match else ""


def what_blocks(text: str) -> str:
    """The init container that a pod waits for, with what it wrote last."""
    what, _, line = text.removeprefix("its ").partition("; its last line says ")
    quoted = line.strip('"')
    return f"{what} (“{plain(masked(quoted), _LINE_SHOWN)}”)" if quoted else what


def probe_answer(text: str) -> str:
    """What a probe got: "HTTP 404", "connection refused"; empty where the words don't say."""
    match = _NO_PROBE_ANSWER.search(text)
    if match is None:
        return ""
    code = match[0].removeprefix("statuscode: ")
    return f"HTTP {code}" if code.isdigit() else match[0]


def no_room(text: str) -> str:
    """Why no node takes a pod, in the scheduler's words without its count of nodes."""
    match = _PLACED.search(text)
    return plain(match["why"], _LINE_SHOWN) if match else ""


def node_shortage(text: str) -> str:
    """What a node is short of: "is short of memory", "has a clock that is 88 s off"."""
    match = _CONDITION.match(text)
    if match is not None:
        return _PRESSURES[match["what"]]
    # Other conditions, as the node problem detector sets them, have names and no sentence.
    return f"has {plain(text, _LINE_SHOWN)}" if text and not re.match(r"\w+: ", text) else ""


READERS: Mapping[str, Callable[[str], str]] = {
    "image_unavailable": image_and_reason,
    "quota_exceeded": quota_used,
    "crash_loop": how_it_ended,
    "start_blocked": what_blocks,
    "readiness_failing": probe_answer,
    "liveness_failing": probe_answer,
    "unschedulable": no_room,
    "placement_impossible": no_room,
    "node_under_pressure": node_shortage,
}
"""What reads the detail of a clause from the connector's value, by fact."""
