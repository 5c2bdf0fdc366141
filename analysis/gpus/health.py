"""What is wrong with a GPU: against its own baseline and against the other GPUs of the job in the
same window.

Each finding names the host, the GPU's number there and, where the scope tells how ranks lie on
hosts, the rank. GPUs of one host, or of most of the job, with the same trouble are told together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from analysis.case.folder import Case
from analysis.gpus.errors import error_signs
from analysis.gpus.fleet import Device, Fleet, read_fleet
from analysis.gpus.signs import Sign
from analysis.gpus.slowness import slow_gpus
from analysis.gpus.standstill import standstill
from analysis.kinds.finding_details import GpuDetails
from analysis.kinds.finding_kinds import GPU_KINDS, RULE_KINDS, Analyzer
from analysis.metrics.gpu_signals import OF_A_GPU, SIGNALS
from analysis.vocabulary import Finding
from analysis.wording.phrases import plain

MOST_FINDINGS = 20
MOST_OF_JOB = 0.5
"""When more than half of the GPUs (and at least four) show the same, it is the job's and no
GPU's."""
LEAST_OF_JOB = 4
NAMED = 8
MORE = 0.1
"""Each doubling of the number of devices takes so much of what lacks to certainty."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def gpu_health(case: Case) -> list[Finding]:
    """Findings about GPUs and the network ports of their hosts; none without such series."""
    fleet = read_fleet(case)
    if fleet is None:
        return []
    is_job = (case.scope.job or case.alert.job) is not None
    signs = [*slow_gpus(fleet), *standstill(fleet, is_job=is_job), *error_signs(fleet)]
    found = [_finding(case, fleet, group) for group in _groups(signs, fleet)]
    return sorted(found, key=lambda f: (-f.strength, f.kind, f.subject, f.sentence))[:MOST_FINDINGS]


ANALYZER = Analyzer(gpu_health, kinds=(*GPU_KINDS.values(), RULE_KINDS["ib_error"]))


def _groups(signs: Iterable[Sign], fleet: Fleet) -> list[list[Sign]]:
    """Signs that are told together, the strongest first in each."""
    alike: dict[tuple[str, str], list[Sign]] = defaultdict(list)
    for sign in signs:
        alike[sign.kind, sign.reason].append(sign)
    groups: list[list[Sign]] = []
    for together in alike.values():
        together.sort(key=lambda s: (-s.strength, s.onset_ns or 0, s.device))
        devices = {s.device for s in together}
        if (
            len(devices) >= LEAST_OF_JOB
            and len(devices) > MOST_OF_JOB * len(fleet.gpus)
            and _several_hosts(devices)
        ):
            groups.append(together)
            continue
        by_host: dict[str, list[Sign]] = defaultdict(list)
        for sign in together:
            by_host[sign.device.host].append(sign)
        groups += by_host.values()
    return groups


def _several_hosts(devices: Iterable[Device]) -> bool:
    return len({device.host for device in devices}) > 1


def _finding(case: Case, fleet: Fleet, signs: Sequence[Sign]) -> Finding:
    lead = signs[0]
    devices = sorted({s.device for s in signs})
    ranks = [rank for device in devices if (rank := _rank(case, device, lead)) is not None]
    subject, who, numbers = _named(case, fleet, lead, devices, ranks)
    onset = min((s.onset_ns for s in signs if s.onset_ns is not None), default=None)
    left = 1.0 - lead.strength
    strength = 1.0 - left * (1.0 - MORE) ** (len(devices).bit_length() - 1)
    place = plain(lead.device.host, 60) if not _several_hosts(devices) else "these hosts"
    job = case.scope.job or case.alert.job
    return Finding(
        id="",
        kind=lead.kind,
        subject=subject,
        signal=lead.signal,
        onset=_EPOCH + timedelta(microseconds=onset // 1000) if onset is not None else None,
        onset_uncertainty_s=round(lead.uncertainty_s, 3) if onset is not None else None,
        effect=lead.numbers.get("incident", lead.numbers.get("increase")),
        effect_unit=SIGNALS[lead.signal].unit or None,
        strength=round(strength, 4),
        sentence=f"{who} {lead.says}.",
        numbers={**lead.numbers, **numbers},
        evidence=case.evidence_ids("metrics"),
        series={"table": "metrics", "service": lead.device.service, "signal": lead.signal},
        details=_details(lead, devices, ranks, job=job, place=place),
    )


def _details(
    lead: Sign, devices: Sequence[Device], ranks: Sequence[int], *, job: str | None, place: str
) -> GpuDetails:
    details = GpuDetails(
        ranks=tuple(ranks[:256]),
        hosts=tuple(sorted({device.host for device in devices})[:64]),
        gpus=tuple(f"{device.host}/{device.unit}" for device in devices[:64]),
        fix=lead.fix.replace("{host}", place),
        source=lead.source,
    )
    # Only what a sign has is set, because what is set is written to findings.json.
    known = {"job": job, "events": lead.events, "minutes": lead.minutes, "xids": lead.xids}
    return details.model_copy(update={name: v for name, v in known.items() if v not in (None, "")})


def _rank(case: Case, device: Device, sign: Sign) -> int | None:
    training = case.scope.training
    if training is None or device.index is None or sign.whole_job or sign.signal not in OF_A_GPU:
        return None
    return training.rank_of(device.host, device.index)


def _named(
    case: Case, fleet: Fleet, lead: Sign, devices: Sequence[Device], ranks: Sequence[int]
) -> tuple[str, str, dict[str, float]]:
    """The finding's subject, the words that begin its sentence, and the numbers in them."""
    job = case.scope.job or case.alert.job or case.alert.service or lead.device.service or "job"
    host = plain(lead.device.host, 60)
    many = len(devices)
    if lead.whole_job or (many > 1 and _several_hosts(devices)):
        total = len(fleet.gpus)
        if lead.whole_job:
            return job, f"{plain(job)}: all {total} GPUs", {"gpus": float(total)}
        return (
            job,
            f"{plain(job)}: each of {many} GPUs (of {total})",
            {"gpus": float(total), "affected": float(many)},
        )
    if lead.signal not in OF_A_GPU:
        ports = ", ".join(plain(d.unit, 40) for d in devices[:NAMED])
        return lead.device.host, f"{host} ({ports})" if ports else host, {}
    if many > 1:
        units = ", ".join(plain(d.unit, 12) for d in devices[:NAMED])
        more = "" if many <= NAMED else ", ..."
        numbers = {f"gpu_{d.unit}": float(d.index) for d in devices[:NAMED] if d.index is not None}
        return (
            lead.device.host,
            f"{host}: each of {many} GPUs ({units}{more})",
            {"affected": float(many), **numbers},
        )
    unit = plain(lead.device.unit, 12)
    known = {"gpu": float(lead.device.index)} if lead.device.index is not None else {}
    if ranks:
        return (
            f"rank {ranks[0]}",
            f"rank {ranks[0]} (GPU {unit} of {host})",
            {"rank": float(ranks[0]), **known},
        )
    return f"{lead.device.host}/gpu{unit}", f"{host}/gpu{unit}", known
