"""Whether acting on an answer would have ended the incident: right, half right or wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from proving_ground.plain.generator.incident import Incident

Mark = Literal["right", "half", "wrong"]
NAMES_A_CAUSE = ("cause_found", "recovered")
NOT_SERVICES = ("zone", "node", "noisy", "job", "dns", "pod", "volume")
"""Roles whose name in the headline is enough: nothing but the culprit is called so."""
SATURATED = 0.95


@dataclass(frozen=True)
class Truth:
    """What happened, and what an answer has to name."""

    story: str
    names: tuple[str, ...]
    distinctive: tuple[str, ...]
    """Those of the names that may stand anywhere in the headline."""
    must: str
    half: tuple[str, ...]
    halfway: str
    change: str = ""
    """Title of the guilty change."""
    change_id: str = ""


@dataclass(frozen=True)
class Answer:
    """What the product said, as far as it is graded."""

    verdict: str
    headline: str
    subject: str
    change: str
    """The change that the first cause blames."""
    confidence: float

    @property
    def names_a_cause(self) -> bool:
        """Whether it says what caused the incident."""
        return self.verdict in NAMES_A_CAUSE

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Answer:
        """From the JSON that `faultline ask --json` prints."""
        first = answer["causes"][0] if answer["causes"] else {}
        change = first.get("change") or ""
        return cls(
            answer["verdict"],
            answer["headline"],
            first.get("subject") or "",
            change if isinstance(change, str) else str(change),
            float(answer["confidence"]),
        )


def truth_of(incident: Incident) -> Truth:
    """The truth of an incident, with its names put in."""
    kind, guilty = incident.kind, incident.guilty
    words = {name: re.escape(value) for name, value in incident.cast.items()}
    change = re.escape(guilty.title) if guilty else "no change"
    version = re.escape(incident.system.services[guilty.service].next_version) if guilty else "none"
    words |= {"change": f"{change}|{guilty.id if guilty else 'no id'}", "new": version}
    distinctive = [role for role in kind.names if role in NOT_SERVICES]
    return Truth(
        story=kind.story,
        names=names_of(incident, kind.names),
        distinctive=names_of(incident, distinctive),
        must=filled(kind.must, words),
        half=names_of(incident, kind.half),
        halfway=filled(kind.halfway, words),
        change=guilty.title if guilty else "",
        change_id=guilty.id if guilty else "",
    )


def filled(pattern: str, words: Mapping[str, str]) -> str:
    """A pattern with the names of roles in it."""
    return re.sub(r"\{([a-z]+)\}", lambda match: words[match[1]], pattern)


def names_of(incident: Incident, roles: Iterable[str]) -> tuple[str, ...]:
    """The names behind roles; some roles are many."""
    names: list[str] = []
    for role in roles:
        names += MANY[role](incident) if role in MANY else [incident.cast[role]]
    return tuple(dict.fromkeys(names))


def saturated(incident: Incident) -> list[str]:
    """Who is at the end of its capacity."""
    flow, names = incident.flow, []
    since = flow.clock.seconds > incident.onset_s + 120
    for service in incident.system.of_role("front", "app", "database", "cache"):
        if max(float(flow.used[pod.name][since].max()) for pod in service.pods) > SATURATED:
            names.append(service.name)
    return names


def services_on_node(incident: Incident) -> list[str]:
    """Who has a pod on the incident's machine."""
    names = []
    for service in incident.system.services.values():
        if any(pod.node == incident.cast["node"] for pod in service.pods):
            names.append(service.name)
    return names


def nodes_of_zone(incident: Incident) -> list[str]:
    """The machines of the incident's zone."""
    nodes = incident.system.nodes.values()
    return [node.name for node in nodes if node.zone == incident.cast["zone"]]


MANY: Mapping[str, Callable[[Incident], list[str]]] = {
    "saturated": saturated,
    "on_node": services_on_node,
    "zone_node": nodes_of_zone,
}


def grade(truth: Truth, answer: Answer) -> Mark:
    """Hold an answer against the truth."""
    text = f"{answer.headline} {answer.change}"
    is_named = names_culprit(truth, answer, text)
    is_right = is_named and matches(truth.must or ".", text)
    if truth.story == "nothing":
        return (
            "wrong"
            if answer.names_a_cause and not is_harmless(truth, answer, is_right)
            else "right"
        )
    if answer.names_a_cause and is_right:
        return "right"
    helps = is_named or is_same(answer.subject, truth.half) or matches(truth.halfway, text)
    # Where no cause is established, the headline may still say where to look.
    says_where = answer.names_a_cause or mentions(answer.headline, (*truth.names, *truth.half))
    is_half = helps and says_where and answer.verdict != "no_active_incident"
    return "half" if is_half else "wrong"


def names_culprit(truth: Truth, answer: Answer, text: str) -> bool:
    """Whether the answer is about the culprit. Who takes back the guilty change ends the incident,
    whatever it is said to have made worse."""
    is_named = is_same(answer.subject, truth.names) or mentions(text, truth.distinctive)
    return is_named or blames_guilty_change(truth, answer)


def blames_guilty_change(truth: Truth, answer: Answer) -> bool:
    """Whether the headline begins with the guilty change: `Deploy of cart v2` for `Deploy cart
    v2`."""
    words = [re.escape(word) for word in truth.change.split()]
    spelling = r"\s+(?:of\s+)?".join(words)
    return bool(words and answer.change) and re.match(spelling, answer.headline) is not None


def is_harmless(truth: Truth, answer: Answer, is_right: bool) -> bool:
    """Whether a cause that is named where nothing happened is so: what is over, and a broken
    exporter that is named as such."""
    return is_right and (answer.verdict == "recovered" or bool(truth.must))


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern that is not empty is in a text."""
    return bool(pattern) and re.search(pattern, text, re.IGNORECASE) is not None


def is_same(subject: str, names: Iterable[str]) -> bool:
    """Whether a subject is one of the names: alone, or as part of a longer name of it, such as
    `host.namespace.svc`, `host:5432`, or a pod's."""
    pattern = r"(?:https?://)?(?:[\w-]+/)?{}(?:[.:/-].*)?"
    exact = {name.lower() for name in names}
    if subject.lower() in exact:
        return True
    for name in exact:
        # `ledger` is no part of `ledger-db`.
        following = re.fullmatch(pattern.format(re.escape(name)), subject.lower())
        if following and not re.match(rf"{re.escape(name)}-[a-z]+$", subject.lower()):
            return True
    return False


def mentions(text: str, names: Iterable[str]) -> bool:
    """Whether a text holds one of the names as a word."""
    return any(re.search(rf"(?<![\w-]){re.escape(n)}(?![\w-])", text, re.IGNORECASE) for n in names)
