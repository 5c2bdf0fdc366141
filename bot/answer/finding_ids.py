"""Ids that stay: a diagnosis made again with more evidence gives its findings new numbers,
while a conversation cites the old ones.

A finding keeps the id it had where it says the same, or where it alone is about the same thing;
others get new ids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping

from faultline.analysis.kinds.finding_details import EarlierDetails, change_named
from faultline.analysis.vocabulary import Cause, Claim, Diagnosis, Finding, ModelVerdict

Key = Callable[[Finding], Hashable]

KEYS: tuple[Key, ...] = (
    lambda f: (f.kind, f.subject, f.signal, f.sentence),
    lambda f: (f.kind, f.subject, f.signal, change_named(f) or ""),
    lambda f: (f.kind, f.subject),
)
"""What makes two findings the same, the strictest first; each counts only where it is unique on
both sides."""


def with_stable_ids(
    before: Diagnosis, after: Diagnosis, taken: Iterable[str]
) -> tuple[Diagnosis, dict[str, str]]:
    """`after` with the ids of `before` where a finding is the same, and each id's own in `after`.

    `taken` are ids that were given out earlier and may mean nothing else now.
    """
    ids = _matched(before.findings, after.findings)
    used = {*taken, *(f.id for f in before.findings)}
    # `isdecimal`: `int` refuses other digits, such as "²".
    highest = max((int(i[1:]) for i in used if i[1:].isdecimal() and i.startswith("F")), default=0)
    names: dict[str, str] = {}
    for finding in after.findings:
        if finding.id not in ids and not finding.id.startswith("F"):
            ids[finding.id] = finding.id
        elif finding.id not in ids:
            highest += 1
            ids[finding.id] = f"F{highest}"
        names[ids[finding.id]] = finding.id
    return renamed(after, ids), names


def renamed(diagnosis: Diagnosis, names: Mapping[str, str]) -> Diagnosis:
    """The diagnosis with other ids."""

    def ids(old_ids: Iterable[str]) -> tuple[str, ...]:
        return tuple(names.get(i, i) for i in old_ids)

    def cause(original: Cause) -> Cause:
        return original.model_copy(
            update={
                "findings": ids(original.findings),
                "contradicting": ids(original.contradicting),
            }
        )

    def finding(original: Finding) -> Finding:
        update: dict[str, object] = {"id": names.get(original.id, original.id)}
        # What memory knows cites findings too.
        details = EarlierDetails.of(original)
        if details is not None:
            update["details"] = details.model_copy(update={"shows_in": ids(details.shows_in)})
        return original.model_copy(update=update)

    impact = diagnosis.impact.model_copy(update={"findings": ids(diagnosis.impact.findings)})
    return diagnosis.model_copy(
        update={
            "findings": tuple(finding(f) for f in diagnosis.findings),
            "causes": tuple(cause(c) for c in diagnosis.causes),
            "impact": impact,
        }
    )


def claims_renamed(claims: Iterable[Claim], names: Mapping[str, str]) -> tuple[Claim, ...]:
    """Claims with other ids; an id without another stays, and is left to the guard."""

    def ids(old_ids: Iterable[str]) -> tuple[str, ...]:
        return tuple(names.get(i, i) for i in old_ids)

    renamed = []
    for claim in claims:
        asserted = tuple(
            assertion.model_copy(update={"findings": ids(assertion.findings)})
            for assertion in claim.asserted
        )
        renamed.append(
            claim.model_copy(update={"findings": ids(claim.findings), "asserted": asserted})
        )
    return tuple(renamed)


def verdict_renamed(verdict: ModelVerdict, names: Mapping[str, str]) -> ModelVerdict:
    """A model's verdict with other ids."""
    grounds = tuple(
        assertion.model_copy(
            update={"findings": tuple(names.get(i, i) for i in assertion.findings)}
        )
        for assertion in verdict.grounds
    )
    rivals = tuple(
        rival.model_copy(update={"finding": names.get(rival.finding, rival.finding)})
        for rival in verdict.rivals
    )
    return verdict.model_copy(update={"grounds": grounds, "rivals": rivals})


def _matched(before: Iterable[Finding], after: Iterable[Finding]) -> dict[str, str]:
    """Of the ids in `after`, those whose finding has another id in `before`."""
    old, new = list(before), list(after)
    renames: dict[str, str] = {}
    for key in KEYS:
        ours, theirs = _unique(old, key), _unique(new, key)
        same = {theirs[k].id: ours[k].id for k in theirs if k in ours}
        renames |= same
        # A finding that is matched must not match a second one by a looser key.
        old = [f for f in old if f.id not in same.values()]
        new = [f for f in new if f.id not in same]
    return renames


def _unique(findings: Iterable[Finding], key: Key) -> dict[Hashable, Finding]:
    groups: dict[Hashable, list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[key(finding)].append(finding)
    return {k: group[0] for k, group in groups.items() if len(group) == 1}
