"""Errors of GPUs: Xid, memory errors, row remapping. A last error that was there before the
incident is no news."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from faultline.analysis.gpus.counters import (
    DCGM_LIMITS,
    CounterSteps,
    counter_sign,
    fast_steps,
    first_samples,
    increases,
    link_signs,
)
from faultline.analysis.gpus.fleet import NS, Device, Fleet, Samples, Sign
from faultline.analysis.logs.xid_codes import UNKNOWN_ACTION, XIDS
from faultline.analysis.metrics import series as gs
from faultline.analysis.wording.phrases import plain

XID, ECC, SINGLE_BITS, REMAP = "gpu_xid", "gpu_ecc_error", "gpu_single_bit_errors", "gpu_row_remap"
UNKNOWN_XID, FOLLOWS_ANOTHER = 0.5, 0.2
"""Strength of a code that is not in the table, and of one that only follows another error."""
MAYBE_OLD, GRAVE = 0.3, 0.8
"""A code of a GPU that was not seen before the incident may be old: only those are reported after
which a GPU is broken."""
MOST_XID = 1000
"""NVIDIA's catalogue ends below; other values are no codes."""
SINGLE_BITS_PER_MINUTE = 10.0
"""DCGM, dcgm_gpu_hardware_limits.h, where it is marked as provisional."""
MEMORY_ERRORS = "NVIDIA, GPU memory error management"
REMAP_SIGNALS: Mapping[str, tuple[str, float, str]] = {
    gs.ROW_REMAP_FAILURE: (
        "could not remap a faulty memory row",
        0.8,
        "Drain {host} and have the GPU replaced.",
    ),
    gs.ROW_REMAP_PENDING: (
        "has a memory row that waits to be remapped",
        0.5,
        "Reset the GPU of {host} after the job.",
    ),
}
"""What a sign says, its strength and its fix."""


class XidEvent(NamedTuple):
    """An Xid in the incident: when, since when it may have happened (ns), and whether it surely is
    new."""

    at: int
    since: int
    is_new: bool


def error_signs(fleet: Fleet) -> list[Sign]:
    """Signs of errors, one per device and kind."""
    signs = [*_xids(fleet), *_ecc(fleet), *_remaps(fleet), *link_signs(fleet)]
    strongest: dict[tuple[str, Device, str], Sign] = {}
    for sign in signs:
        key = (sign.kind, sign.device, sign.reason)
        if key not in strongest or sign.strength > strongest[key].strength:
            strongest[key] = sign
    return list(strongest.values())


def xid_meaning(code: int) -> tuple[str, str, float]:
    """What an Xid means, what to do, and how far it speaks for a broken GPU or a broken program, of
    1."""
    xid = XIDS.get(code)
    if xid is None:
        return "an error of the driver that is not in the table", UNKNOWN_ACTION, UNKNOWN_XID
    return xid.meaning, xid.action, max(xid.weight, FOLLOWS_ANOTHER)


def _xids(fleet: Fleet) -> Iterator[Sign]:
    samples = first_samples(fleet)
    for gpu in fleet.gpus:
        xids = _xids_of(gpu, fleet, samples.get(gpu, 0))
        if xids:
            yield _xid_sign(gpu, xids)


def _xids_of(gpu: Device, fleet: Fleet, first_seen: int) -> dict[int, XidEvent]:
    """The codes of one GPU that are worth reporting."""
    codes: dict[int, XidEvent] = {}
    for part in fleet.of(gs.XID).get(gpu, ()):
        codes |= _new_codes(part, fleet, first_seen)
    for part in fleet.of(gs.XID_EVENTS).get(gpu, ()):
        # The code in the labels of a counter of events; 0 where it is none.
        text = part.xid or ""
        # Bound the length before int(): a label is foreign text.
        code = int(text) if text.isdecimal() and len(text) < 5 else 0
        steps = increases(part, fleet, first_seen, falls_restart=False)
        if _is_code(code) and len(steps.times):
            codes.setdefault(code, XidEvent(int(steps.times[0]), int(steps.since[0]), True))
    return {
        code: observed_code
        for code, observed_code in codes.items()
        if observed_code.is_new or xid_meaning(code)[2] >= GRAVE
    }


def _is_code(value: float) -> bool:
    return value == int(value) and 0 < value <= MOST_XID


def _new_codes(part: Samples, fleet: Fleet, first_seen: int) -> dict[int, XidEvent]:
    """Codes that appear in the incident.

    The exporter keeps the last code until it or the driver restarts, and has no series before the
    first error.
    """
    start, end = fleet.search_ns
    codes: dict[int, XidEvent] = {}
    is_earlier = part.times < start
    last_code, was = 0.0, 0
    if is_earlier.any():
        last_code, was = float(part.values[is_earlier][-1]), int(part.times[is_earlier][-1])
    inside = part.between(start, end)
    for at, value in zip(inside.times.tolist(), inside.values.tolist(), strict=True):
        # The gauge repeats the last code with every sample: only another one is news.
        if value != last_code and _is_code(value):
            # Without a sample before it, only a GPU that was seen before makes it new.
            is_new = bool(was) or (0 < first_seen < at)
            codes.setdefault(int(value), XidEvent(at, was or first_seen or at, is_new))
        last_code, was = value, at
    return codes


def _xid_sign(gpu: Device, xids: Mapping[int, XidEvent]) -> Sign:
    def weight(code: int) -> float:
        # A code that may be old ranks behind a new one of the same weight.
        return xid_meaning(code)[2] * (1.0 if xids[code].is_new else MAYBE_OLD)

    codes = sorted(xids, key=lambda code: (-weight(code), xids[code].at, code))
    first, other_codes = codes[0], codes[1:3]
    xid = xids[first]
    meaning, action, _ = xid_meaning(first)
    says = f"has Xid {first}: {plain(meaning, 120)}"
    if other_codes:
        says += f", besides Xid {' and '.join(str(code) for code in other_codes)}"
    if not xid.is_new:
        says += ", perhaps from before"
    numbers = {"incident": float(first)}
    numbers |= {f"xid_{code}": float(code) for code in codes[:3]}
    return Sign(
        kind=XID,
        device=gpu,
        signal=gs.XID,
        strength=weight(first),
        says=says,
        reason=str(first),
        fix=f"On {{host}}: {plain(action, 200).rstrip('.')}.",
        source="NVIDIA, XID Errors (docs.nvidia.com/deploy/xid-errors)",
        onset_ns=xid.at,
        uncertainty_s=max(0.0, (xid.at - xid.since) / NS) if xid.is_new else 0.0,
        numbers=numbers,
        xids=tuple(codes[:10]),
    )


def _rises(fleet: Fleet, signal: str) -> Iterator[tuple[Device, CounterSteps]]:
    """Each series of a counter whose every increase is an error."""
    samples = first_samples(fleet)
    for gpu, parts in fleet.of(signal).items():
        for part in parts:
            steps = increases(part, fleet, samples.get(gpu, 0))
            if steps.total >= 1:
                yield gpu, steps


def _ecc(fleet: Fleet) -> Iterator[Sign]:
    for gpu, steps in _rises(fleet, gs.ECC_DBE):
        yield counter_sign(
            ECC,
            gpu,
            gs.ECC_DBE,
            0.95,
            steps,
            "has {} new uncorrectable memory errors",
            "Drain {host}, reset the GPU and run dcgmi diag -r 3 on it.",
            "DCGM health watch: any is a failure",
        )
    yield from _corrected_errors(fleet)


def _corrected_errors(fleet: Fleet) -> Iterator[Sign]:
    samples = first_samples(fleet)
    for gpu, parts in fleet.of(gs.ECC_SBE).items():
        for part in parts:
            quick = fast_steps(part, fleet, samples.get(gpu, 0), SINGLE_BITS_PER_MINUTE)
            if quick is None:
                continue
            yield counter_sign(
                SINGLE_BITS,
                gpu,
                gs.ECC_SBE,
                0.5,
                quick,
                "has {} new corrected memory errors",
                "Run dcgmi diag -r 3 on {host} after the job, and watch for row remapping.",
                DCGM_LIMITS,
            )


def _remaps(fleet: Fleet) -> Iterator[Sign]:
    samples = first_samples(fleet)
    for signal in REMAP_SIGNALS:
        for gpu, parts in fleet.of(signal).items():
            for part in parts:
                sign = _remap_sign(gpu, signal, part, increases(part, fleet, samples.get(gpu, 0)))
                if sign is not None:
                    yield sign
    for gpu, steps in _rises(fleet, gs.ROWS_REMAPPED):
        yield counter_sign(
            REMAP,
            gpu,
            gs.ROWS_REMAPPED,
            0.7,
            steps,
            "has {} newly remapped memory rows",
            "Reset the GPU on {host} after the job and run dcgmi diag -r 3.",
            MEMORY_ERRORS,
        )


def _remap_sign(gpu: Device, signal: str, part: Samples, steps: CounterSteps) -> Sign | None:
    """A flag that was raised in the incident; or one from before it, which only a failure is worth
    reporting for."""
    is_new = len(steps.times) > 0
    is_raised = len(part.values) > 0 and part.values[-1] >= 1
    if not is_new and not (is_raised and signal == gs.ROW_REMAP_FAILURE):
        return None
    says, strength, fix = REMAP_SIGNALS[signal]
    return Sign(
        kind=REMAP,
        device=gpu,
        signal=signal,
        # A fault from before the incident is worth fixing, but explains little.
        strength=strength if is_new else 0.25,
        says=says if is_new else says + ", since before the incident",
        reason=signal,
        fix=fix,
        source=f"{MEMORY_ERRORS}; GCM health checks",
        onset_ns=int(steps.times[0]) if is_new else None,
        uncertainty_s=float(steps.times[0] - steps.since[0]) / NS if is_new else 0.0,
    )
