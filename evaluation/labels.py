"""`label.json`: the truth about a case. No investigation reads it; grading does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from faultline.analysis.case.tables import MAX_JSON_BYTES, check_regular, is_there
from faultline.analysis.errors import EvidenceError
from faultline.analysis.vocabulary import Cause, Diagnosis, Frozen, Report, Verdict
from faultline.analysis.wording.phrases import plain
from faultline.bot.answer.writer.plain_text import folded, named_in

NO_CHANGE = "none"
"""The culprit change of a case in which no change is to blame."""
_SYSTEM = re.compile(r"(.+?)(?:[-_. ]\d+(?=[-_. ]|$)|(?<=[^\d])\d+$)")


class CaseLabel(Frozen):
    """What is known of a case; whatever is absent is not graded. `decoys` are changes that are not
    to blame."""

    subject: str | None = None
    aliases: tuple[str, ...] = ()
    """Other subjects that are as right: the pod of a service, the volume of a database."""
    fault: str | None = None
    change: str | None = None
    decoys: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    """Services from the one that alerts down to the subject, along calls."""
    verdict: Verdict | None = None

    @property
    def gradable(self) -> bool:
        """Whether it says anything that an answer can be held against."""
        return any((self.subject, self.change, self.verdict))

    @property
    def fault_class(self) -> str:
        """The fault, in the label's own word, else whether a change is to blame."""
        if self.fault:
            return self.fault
        if not self.change:
            return "unnamed"
        return "no change" if self.change == NO_CHANGE else "a change"


def read_label(folder: Path) -> CaseLabel | None:
    """The case's label; None when it has none. Raises EvidenceError when it cannot be read."""
    file = folder / "label.json"
    if not is_there(file):
        return None
    # A foreign folder may hold a pipe or a huge file in its place.
    check_regular(file, MAX_JSON_BYTES)
    try:
        return CaseLabel.model_validate(json.loads(file.read_bytes()))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise EvidenceError(file.name, f"{place}: {first['msg']}") from error
    except (ValueError, OSError, RecursionError) as error:
        raise EvidenceError(file.name, f"is not readable JSON ({error})") from error


def system_of(name: str) -> str:
    """The folder's name up to its number: "train-ticket-07" is of "train-ticket"; all of it without
    a number."""
    match = _SYSTEM.match(name)
    return match[1] if match else name


# Whether an answer shows how the culprit came to raise the alert: every hop between the two.
#
# A right name may be luck; a reader trusts, and can check, the chain of calls that leads to it. The
# idea is OpenRCA 2.0's, which grades the path beside the cause. A hop is shown when the answer
# names it: in its words, among what it calls affected, or in the evidence of its first cause.


def path_shown(path: Sequence[str], diagnosis: Diagnosis, report: Report) -> bool | None:
    """Whether every service of the path is shown; None for a path without a call."""
    if len(path) < 2:
        return None
    text = folded("\n".join(_shown(diagnosis, report)))
    return all(named_in(folded(service), text) for service in path)


def _shown(diagnosis: Diagnosis, report: Report) -> list[str]:
    shown = [report.headline, diagnosis.impact.sentence, *diagnosis.impact.services]
    shown += [claim.text for claim in report.claims]
    if not diagnosis.causes:
        return shown
    first = diagnosis.causes[0]
    shown += [first.subject, first.summary]
    for finding in diagnosis.findings:
        if finding.id in first.findings:
            shown += [finding.subject, finding.sentence]
    return shown


# How a case is set up: where the culprit lies from the alert, and what telemetry there is.
#
# Simulated worlds tell it in `truth.json` beside the label; of other cases a label may give the
# path. Grades are broken down by it. Like the label it is read by no investigation.

AT_THE_ALERT = "at the alert"
FAR = 3
"""Calls from which on distances are counted together: few cases lie further."""
COARSE_S = 60
"""Series with more seconds between points than Prometheus' usual minute are coarse."""
SIZES = (20, 60, 150)
"""Upper bounds of the sizes of systems that are reported apart."""


@dataclass(frozen=True)
class CaseSetting:
    """What is known about a case besides the right answer; empty where it is unknown."""

    path: tuple[str, ...] = ()
    """Services from the one that alerts down to the culprit, along calls."""
    distance: str = ""
    culprit_kind: str = ""
    conditions: tuple[tuple[str, str], ...] = ()
    """(what, how it is), such as ("topology", "partial")."""


DEFAULT_SETTING = CaseSetting()


def read_setting(folder: Path, label: CaseLabel | None) -> CaseSetting:
    """The setting of a case; what cannot be read is left out."""
    truth = _read(folder / "truth.json")
    cause = truth.get("cause")
    if not isinstance(cause, Mapping):
        path = label.path if label else ()
        return CaseSetting(path, _calls(len(path) - 1) if path else "", "", _conditions(truth))
    # Calls lead down from the alert; a culprit above it, or beside it, has no such path.
    below = cause.get("where") == "below"
    return CaseSetting(
        path=tuple(cause.get("path") or ()) if below else (),
        distance=_calls(int(cause.get("hops") or 0))
        if below
        else f"{cause.get('where')} the alert",
        culprit_kind=str(cause.get("kind", "")),
        conditions=_conditions(truth),
    )


def named_by_replay(folder: Path) -> tuple[str, ...] | None:
    """The services that an observer would name who has all calls, and the replay without the fault.
    None for a case that has no replay."""
    named = _read(folder / "truth.json").get("named_by_replay")
    return tuple(named) if isinstance(named, list) else None


def _read(file: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(file.read_bytes())
    # What cannot be read is left out: a setting is no part of the grade.
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _calls(hops: int) -> str:
    if hops == 0:
        return AT_THE_ALERT
    if hops >= FAR:
        return f"{FAR} or more calls away"
    return "1 call away" if hops == 1 else f"{hops} calls away"


def _conditions(truth: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    telemetry = truth.get("telemetry")
    if not isinstance(telemetry, Mapping):
        return ()
    coarsest = max(telemetry.get("interval_s") or [0])
    conditions = {
        "size": _size(int(truth.get("units", 0))),
        "step": f"up to {COARSE_S} s" if coarsest <= COARSE_S else f"over {COARSE_S} s",
        "topology": str(telemetry.get("topology")),
        "logs": "yes" if telemetry.get("logs") else "no",
        "spans": "yes" if telemetry.get("spans") else "no",
        "seams in metrics": "yes" if telemetry.get("seams") else "no",
        "late tail": "yes" if telemetry.get("lag_steps") else "no",
        "bystanders": "yes" if truth.get("bystanders") else "no",
    }
    cause = truth.get("cause")
    if isinstance(cause, Mapping):
        conditions["culprit watched"] = "yes" if cause.get("watched") else "no"
        conditions["guilty change"] = "yes" if truth.get("guilty_change") else "no"
    return tuple(conditions.items())


def _size(units: int) -> str:
    least = 1
    for most in SIZES:
        if units <= most:
            return f"{least} to {most}"
        least = most + 1
    return f"{least} or more"


# One answer held against the truth.
#
# The place of the true subject among the causes gives AC@k, whatever the verdict. The *answer* is
# right when the verdict names a cause and the first cause is the true subject, or when the verdict
# is the label's own ("no active incident", "not enough evidence"): that is what the stated
# confidence is about. "No change is to blame" is decided by the first cause alone: further causes
# without a change are no second answer. An answer that nothing is wrong blames no change.

NAMES_A_CAUSE = frozenset({Verdict.CAUSE_FOUND, Verdict.RECOVERED})
SHOWN_CAUSES = 5
CHANGES_READ = 3
"""Causes whose change is compared with the culprit change."""
MAX_WHY = 400


@dataclass(frozen=True)
class Grade:
    """One case: the truth, the answer, and what of it is right; None is what the label does not
    tell.

    `rank` is the place of the true subject among the causes, from 1; None when it is not among
    them.
    """

    case: str
    system: str
    fault: str = "unnamed"
    label: CaseLabel | None = None
    rank: int | None = None
    causes: tuple[str, ...] = ()
    verdict: Verdict | None = None
    confidence: float | None = None
    right: bool | None = None
    change: str | None = None
    change_rank: int | None = None
    decoys: tuple[str, ...] = ()
    """Decoys that the first three causes blame."""
    decoy_first: bool = False
    """Whether the first cause blames a decoy."""
    cpu_s: float = 0.0
    answer_why: str = ""
    truth_why: str = ""
    setting: CaseSetting = DEFAULT_SETTING
    path_shown: bool | None = None
    """Whether the answer names every hop from the alert to the culprit, and the culprit first; None
    where no such path is known."""
    baselines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What simple methods named on the same case, by method."""
    problem: str | None = None
    """Why there is no answer, or why it is not graded."""

    @property
    def subject(self) -> str | None:
        """The true subject."""
        return self.label.subject or None if self.label else None

    @property
    def culprit(self) -> str | None:
        """The change that is to blame, or "none"."""
        return self.label.change or None if self.label else None

    @property
    def verdict_right(self) -> bool | None:
        """Whether the verdict is the label's."""
        expected = self.label.verdict if self.label else None
        return None if expected is None else self.verdict is expected

    @property
    def cluster(self) -> tuple[str, str, str]:
        """Cases alike in these are hardly independent tests."""
        return self.system, self.subject or "", self.fault

    def hit(self, k: int) -> bool:
        """Whether the true subject is among the first k causes."""
        return self.rank is not None and self.rank <= k

    def change_hit(self, k: int) -> bool:
        """Whether the culprit change is among those of the first k causes."""
        return self.change_rank is not None and self.change_rank <= k


def grade(case: str, system: str, label: CaseLabel, diagnosis: Diagnosis, cpu_s: float) -> Grade:
    """Hold the diagnosis against the label; `cpu_s` is what the answer took."""
    causes = diagnosis.causes
    subjects = [cause.subject for cause in causes]
    names = {label.subject, *label.aliases}
    rank = next((n for n, subject in enumerate(subjects, start=1) if subject in names), None)
    blamed = [cause.change or NO_CHANGE for cause in causes[:CHANGES_READ]] or [NO_CHANGE]
    # A verdict that nothing is wrong blames no change, whatever the causes name.
    if diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        blamed = [NO_CHANGE]
    decoys = set(label.decoys)
    return Grade(
        case=case,
        system=system,
        fault=label.fault_class,
        label=label,
        rank=rank,
        causes=tuple(subjects[:SHOWN_CAUSES]),
        verdict=diagnosis.verdict,
        confidence=diagnosis.confidence,
        right=_right(label, diagnosis.verdict, rank),
        change=blamed[0],
        change_rank=_change_rank(label.change, blamed),
        decoys=tuple(dict.fromkeys(c for c in blamed if c in decoys)),
        decoy_first=blamed[0] in decoys,
        cpu_s=cpu_s,
        answer_why=plain(causes[0].summary, MAX_WHY) if causes else "no cause is named",
        truth_why=_for_the_truth(label.subject, diagnosis, causes)
        if label.subject and rank != 1
        else "",
    )


def _right(label: CaseLabel, verdict: Verdict, rank: int | None) -> bool | None:
    if label.subject and verdict in NAMES_A_CAUSE:
        return rank == 1
    if label.verdict is not None:
        return verdict is label.verdict
    return False if label.subject else None


def _change_rank(culprit: str | None, blamed: Sequence[str]) -> int | None:
    # Further causes without a change are no second answer to "no change".
    if culprit == NO_CHANGE:
        return 1 if blamed[0] == NO_CHANGE else None
    return blamed.index(culprit) + 1 if culprit in blamed else None


def _for_the_truth(subject: str, diagnosis: Diagnosis, causes: Sequence[Cause]) -> str:
    """What the analysis has to say for the true subject where it did not come first."""
    for cause in causes:
        if cause.subject == subject:
            return plain(cause.summary, MAX_WHY)
    # The first sentences are the strongest, since findings are sorted by strength.
    sentences = [finding.sentence for finding in diagnosis.findings if finding.subject == subject]
    return plain(" ".join(sentences[:3]), MAX_WHY) if sentences else "nothing was found about it"
