"""Whether acting on an answer would have ended the incident: right, half right or wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from proving_ground.plain.generator.incident import Incident

Mark = Literal["right", "half", "wrong"]
NAMES_A_CAUSE = ("cause_found", "recovered")
NOT_SERVICES = ("zone", "node", "noisy", "job", "dns", "pod", "exporter")
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
    system, flow, names = incident.system, incident.flow, []
    since = flow.clock.seconds > incident.onset_s + 120
    for role in roles:
        if role == "saturated":
            for service in system.of_role("front", "app", "database", "cache"):
                used = max(float(flow.used[pod.name][since].max()) for pod in service.pods)
                if used > SATURATED:
                    names.append(service.name)
        elif role == "on_node":
            for service in system.services.values():
                if any(pod.node == incident.cast["node"] for pod in service.pods):
                    names.append(service.name)
        elif role == "zone_node":
            names += [n.name for n in system.nodes.values() if n.zone == incident.cast["zone"]]
        elif role == "zone":
            names += [incident.cast["zone"]]
        else:
            names.append(incident.cast[role])
    return tuple(dict.fromkeys(names))


def grade(truth: Truth, answer: Answer) -> Mark:
    """Hold an answer against the truth."""
    names_a_cause = answer.verdict in NAMES_A_CAUSE
    text = f"{answer.headline} {answer.change}"
    is_named = is_same(answer.subject, truth.names) or mentions(text, truth.distinctive)
    has_all = not truth.must or bool(re.search(truth.must, text, re.IGNORECASE))
    if truth.story == "nothing":
        if not names_a_cause or (is_named and has_all and answer.verdict == "recovered"):
            return "right"
        # A broken exporter may be named as such.
        return "right" if is_named and has_all and truth.must else "wrong"
    if names_a_cause and is_named and has_all:
        return "right"
    if answer.verdict == "no_active_incident":
        return "wrong"
    helps = is_named or is_same(answer.subject, truth.half)
    if truth.halfway:
        helps = helps or bool(re.search(truth.halfway, text, re.IGNORECASE))
    # Where no cause is established, the headline may still say where to look.
    if helps and (names_a_cause or mentions(answer.headline, (*truth.names, *truth.half))):
        return "half"
    return "wrong"


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
