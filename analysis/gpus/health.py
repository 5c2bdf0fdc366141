"""What is wrong with a GPU: against its own baseline and against the other GPUs of the job in the
same window.

Each finding names the host, the GPU's number there and, where the scope tells how ranks lie on
hosts, the rank. GPUs of one host, or of most of the job, with the same fault share one finding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from faultline.analysis.analyzers import Analyzer
from faultline.analysis.case.folder import Case
from faultline.analysis.gpus.errors import error_signs
from faultline.analysis.gpus.fleet import Device, Fleet, Sign, read_fleet
from faultline.analysis.gpus.slowness import slow_gpus
from faultline.analysis.gpus.standstill import standstill
from faultline.analysis.gpus.throttled import with_throttled
from faultline.analysis.kinds.finding_details import GpuDetails
from faultline.analysis.kinds.finding_kinds import GPU_KINDS, RULE_KINDS
from faultline.analysis.metrics.series import OF_A_GPU, SIGNALS
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import capitalised, plain

MOST_FINDINGS = 20
MOST_OF_JOB = 0.5
"""When more than half of the GPUs (and at least four) show the same, it is the job's and no
GPU's."""
LEAST_OF_JOB = 4
NAMED = 8
MORE = 0.1
"""Each doubling of the number of devices takes this share of what is missing to certainty."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Naming(NamedTuple):
    """The finding's subject, the words that begin its sentence, and the numbers in them."""

    subject: str
    words: str
    numbers: Mapping[str, float]


def gpu_health(case: Case) -> list[Finding]:
    """Findings about GPUs and the network ports of their hosts; none without such series."""
    fleet = read_fleet(case)
    if fleet is None:
        return []
    is_job = (case.scope.job or case.alert.job) is not None
    slow = with_throttled(fleet, slow_gpus(fleet))
    signs = [*slow, *standstill(fleet, is_job=is_job), *error_signs(fleet)]
    # Signs that share a finding, the strongest first in each.
    by_reason: dict[tuple[str, str], list[Sign]] = defaultdict(list)
    for sign in signs:
        by_reason[sign.kind, sign.reason].append(sign)
    groups: list[list[Sign]] = []
    for alike in by_reason.values():
        alike.sort(key=lambda sign: (-sign.strength, sign.onset_ns or 0, sign.device))
        # Whether what these devices show is the job's, and no single GPU's.
        devices = {sign.device for sign in alike}
        enough = len(devices) >= LEAST_OF_JOB and len(devices) > MOST_OF_JOB * len(fleet.gpus)
        if enough and _several_hosts(devices):
            groups.append(alike)
        else:
            groups += _by_host(alike)
    findings = [_finding(case, fleet, group) for group in groups]
    findings.sort(key=lambda f: (-f.strength, f.kind, f.subject, f.sentence))
    return findings[:MOST_FINDINGS]


ANALYZER = Analyzer(gpu_health, kinds=(*GPU_KINDS.values(), RULE_KINDS["ib_error"]))


def _by_host(signs: Iterable[Sign]) -> Iterable[list[Sign]]:
    by_host: dict[str, list[Sign]] = defaultdict(list)
    for sign in signs:
        by_host[sign.device.host].append(sign)
    return by_host.values()


def _several_hosts(devices: Iterable[Device]) -> bool:
    return len({device.host for device in devices}) > 1


def _finding(case: Case, fleet: Fleet, signs: Sequence[Sign]) -> Finding:
    sign = signs[0]
    devices = sorted({sign.device for sign in signs})
    ranks = _ranks(case, devices, sign)
    named = _named(case, fleet, sign, devices, ranks)
    onsets = [sign.onset_ns for sign in signs if sign.onset_ns is not None]
    job = case.scope.job or case.alert.job
    place = "these hosts" if _several_hosts(devices) else plain(sign.device.host, 60)
    # The strongest sign's strength, raised by every doubling of the number of devices.
    doublings = len(devices).bit_length() - 1
    missing = (1.0 - sign.strength) * (1.0 - MORE) ** doublings
    return Finding(
        id="",
        kind=sign.kind,
        subject=named.subject,
        signal=sign.signal,
        onset=_EPOCH + timedelta(microseconds=min(onsets) // 1000) if onsets else None,
        onset_uncertainty_s=round(sign.uncertainty_s, 3) if onsets else None,
        effect=sign.numbers.get("incident", sign.numbers.get("increase")),
        effect_unit=SIGNALS[sign.signal].unit or None,
        strength=round(1.0 - missing, 4),
        sentence=f"{_at_start(named.words)} {sign.says}.",
        numbers={**sign.numbers, **named.numbers},
        evidence=case.evidence_ids("metrics"),
        series={"table": "metrics", "service": sign.device.service, "signal": sign.signal},
        details=_details(sign, devices, ranks, job=job, place=place),
    )


def _at_start(words: str) -> str:
    """Words that begin a sentence. A host's name stays as it is written."""
    return capitalised(words) if words.startswith(("all ", "each ")) else words


def _ranks(case: Case, devices: Iterable[Device], sign: Sign) -> list[int]:
    """The ranks of the devices; only those that the scope places."""
    if case.scope.training is None or sign.whole_job or sign.signal not in OF_A_GPU:
        return []
    ranks = []
    for device in devices:
        if device.index is None:
            continue
        rank = case.scope.training.rank_of(device.host, device.index)
        if rank is not None:
            ranks.append(rank)
    return ranks


def _details(
    sign: Sign, devices: Sequence[Device], ranks: Sequence[int], *, job: str | None, place: str
) -> GpuDetails:
    details = GpuDetails(
        ranks=tuple(ranks[:256]),
        hosts=tuple(sorted({device.host for device in devices})[:64]),
        gpus=tuple(f"{device.host}/{device.unit}" for device in devices[:64]),
        fix=sign.fix.replace("{host}", place),
        source=sign.source,
    )
    # Only what a sign has is set, because what is set is written to findings.json.
    all_values = {"job": job, "events": sign.events, "minutes": sign.minutes, "xids": sign.xids}
    values = {name: value for name, value in all_values.items() if value not in (None, "")}
    return details.model_copy(update=values)


def _named(
    case: Case, fleet: Fleet, sign: Sign, devices: Sequence[Device], ranks: Sequence[int]
) -> Naming:
    """How the finding names the devices."""
    if sign.whole_job or _several_hosts(devices):
        return _named_job(case, fleet, sign, len(devices))
    host = sign.device.host
    if sign.signal not in OF_A_GPU:
        ports = ", ".join(plain(device.unit, 40) for device in devices[:NAMED])
        words = f"{plain(host, 60)} ({ports})" if ports else plain(host, 60)
        return Naming(host, words, {})
    if len(devices) > 1:
        return _named_gpus(host, devices)
    return _named_gpu(sign.device, ranks)


def _named_job(case: Case, fleet: Fleet, sign: Sign, affected: int) -> Naming:
    job = case.scope.job or case.alert.job or case.alert.service or sign.device.service or "job"
    total = len(fleet.gpus)
    if sign.whole_job:
        return Naming(job, f"all {total} GPUs of {plain(job)}", {"gpus": float(total)})
    words = f"each of {affected} GPUs (of {total}) of {plain(job)}"
    return Naming(job, words, {"gpus": float(total), "affected": float(affected)})


def _named_gpus(host: str, devices: Sequence[Device]) -> Naming:
    """Several GPUs of one host."""
    shown = devices[:NAMED]
    units = ", ".join(plain(device.unit, 12) for device in shown)
    if len(devices) > NAMED:
        units += ", ..."
    numbers = {"affected": float(len(devices))}
    for device in shown:
        if device.index is not None:
            numbers[f"gpu_{device.unit}"] = float(device.index)
    return Naming(host, f"each of {len(devices)} GPUs ({units}) of {plain(host, 60)}", numbers)


def _named_gpu(device: Device, ranks: Sequence[int]) -> Naming:
    host, unit = plain(device.host, 60), plain(device.unit, 12)
    numbers = {"gpu": float(device.index)} if device.index is not None else {}
    if not ranks:
        return Naming(f"{device.host}/gpu{unit}", f"{host}/gpu{unit}", numbers)
    rank = ranks[0]
    words = f"rank {rank} (GPU {unit} of {host})"
    return Naming(f"rank {rank}", words, {"rank": float(rank), **numbers})
