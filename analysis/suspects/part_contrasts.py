"""Which part of a service is in trouble: one version, one cluster or a few pods beside the others
of the same service, at the same time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faultline.analysis.kinds.finding_details import PartDetails
from faultline.analysis.kinds.finding_kinds import PART_CONTRAST
from faultline.analysis.kinds.signals import PART_LABELS, SYMPTOMS, parts_of
from faultline.analysis.suspects.deviations import Deviation
from faultline.analysis.suspects.outside_view import onset_of, step_s
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import counted, plain

LEAST_GAP = 0.3
"""How much worse, in shares of the case's loudest series, the best of the worse parts is than the
worst of the others."""
AS_CLEAR = 0.8
"""A kind of part whose gap is at least this share of the widest one's is as clear as that one."""
MOST_NAMED = 3

_ORDER = {kind: place for place, kind in enumerate(PART_LABELS)}


@dataclass(frozen=True)
class PartContrast:
    """The worse parts of one service, of one kind and by one class of signal."""

    service: str
    kind: str
    worse: tuple[str, ...]
    part_count: int
    gap: float
    worst: Deviation


def part_contrasts(
    service_series: Sequence[tuple[Deviation, float]], evidence: tuple[str, ...]
) -> list[Finding]:
    """One finding per service that has at most half of its parts in trouble.

    `service_series` are the services' series with how far each explains the alert, in [0, 1];
    `evidence` is what they came with.
    """
    by_service: dict[str, list[PartContrast]] = defaultdict(list)
    for (service, kind, _), series in _by_part(service_series).items():
        contrast = _contrast(service, kind, series)
        if contrast is not None:
            by_service[service].append(contrast)
    return [_finding(_clearest(contrasts), evidence) for _, contrasts in sorted(by_service.items())]


SeriesOfPart = tuple[str, Deviation, float]
"""The part's name, one of its series, and that series' weight."""


def _by_part(
    service_series: Sequence[tuple[Deviation, float]],
) -> Mapping[tuple[str, str, str], list[SeriesOfPart]]:
    """By service, kind of part and class of signal."""
    parts: dict[tuple[str, str, str], list[SeriesOfPart]] = defaultdict(list)
    for deviation, weight in service_series:
        # Load differs between parts without any fault; only symptoms tell a bad one.
        if deviation.signal_class not in SYMPTOMS or not deviation.labels:
            continue
        for kind, name in parts_of(deviation.labels).items():
            parts[deviation.service, kind, deviation.signal_class.value].append(
                (name, deviation, weight)
            )
    return parts


def _contrast(service: str, kind: str, series: Sequence[SeriesOfPart]) -> PartContrast | None:
    """Where the parts fall into few bad ones and others that are clearly better."""
    weights: dict[str, float] = {}
    for name, _, weight in series:
        weights[name] = max(weights.get(name, 0.0), weight)
    ordered = sorted(weights, key=lambda name: (-weights[name], name))
    worse_count, gap = 0, 0.0
    # At most half of the parts may be the worse ones: beyond that the service is in trouble.
    for count in range(1, len(ordered) // 2 + 1):
        drop = weights[ordered[count - 1]] - weights[ordered[count]]
        if drop > gap:
            worse_count, gap = count, drop
    if gap < LEAST_GAP:
        return None
    worst = max(series, key=lambda series: series[2])[1]
    return PartContrast(service, kind, tuple(ordered[:worse_count]), len(ordered), gap, worst)


def _clearest(contrasts: Sequence[PartContrast]) -> PartContrast:
    """Of the kinds whose gap is wide, the one with the fewest worse parts; then the first kind."""
    # A gap nearly as wide is as clear; then fewer bad parts say more.
    clear = max(contrast.gap for contrast in contrasts) * AS_CLEAR
    as_clear = [contrast for contrast in contrasts if contrast.gap >= clear]
    return min(
        as_clear, key=lambda contrast: (len(contrast.worse), _ORDER[contrast.kind], -contrast.gap)
    )


def _finding(contrast: PartContrast, evidence: tuple[str, ...]) -> Finding:
    worse = len(contrast.worse)
    names = ", ".join(plain(name) for name in contrast.worse[:MOST_NAMED])
    phrase = f"Of {counted(contrast.part_count, contrast.kind)} of {plain(contrast.service)} only "
    phrase += f"{names} is worse" if worse == 1 else f"{worse} are worse ({names})"
    return Finding(
        id="",
        kind=PART_CONTRAST.name,
        subject=contrast.service,
        signal=contrast.worst.signal,
        onset=onset_of(contrast.worst),
        onset_uncertainty_s=step_s(contrast.worst),
        strength=round(min(1.0, contrast.gap), 4),
        sentence=f"{phrase} than before, by {plain(contrast.worst.signal)}.",
        numbers={"parts": float(contrast.part_count), "worse": float(worse)},
        evidence=evidence,
        series={"table": "metrics", "service": contrast.service, "signal": contrast.worst.signal},
        details=PartDetails(
            part_kind=contrast.kind,
            parts=contrast.worse[:20],
            parts_known=contrast.part_count,
            bad=True,
        ),
    )
