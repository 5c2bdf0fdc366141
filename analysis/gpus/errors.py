"""Errors of GPUs: Xid, memory errors, row remapping. A last error that was there before the
incident is no news."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.gpus.counters import DCGM_LIMITS, counted, fast, first_samples, increases
from analysis.gpus.fleet import NS, Device, Fleet, Samples
from analysis.gpus.links import link_signs
from analysis.gpus.signs import Sign
from analysis.logs.xid_codes import UNKNOWN_ACTION, XIDS
from analysis.metrics import gpu_signals as gs
from analysis.wording.phrases import plain

XID, ECC, SINGLE_BITS, REMAP = "gpu_xid", "gpu_ecc_error", "gpu_single_bit_errors", "gpu_row_remap"
UNKNOWN_XID, FOLLOWS_ANOTHER = 0.5, 0.2
"""Strength of a code that is not in the table, and of one that only follows another error."""
MAYBE_OLD, GRAVE = 0.3, 0.8
"""A code of a GPU that was not seen before the incident may be old: only those are told after which
a GPU is broken."""
MOST_XID = 1000
"""NVIDIA's catalogue ends below; other values are no codes."""
SINGLE_BITS_PER_MINUTE = 10.0
"""DCGM, dcgm_gpu_hardware_limits.h, where it is marked as provisional."""
MEMORY_ERRORS = "NVIDIA, GPU memory error management"


def error_signs(fleet: Fleet) -> list[Sign]:
    """Signs of errors, one per device and kind."""
    signs = [*_xids(fleet), *_ecc(fleet), *_remaps(fleet), *link_signs(fleet)]
    best: dict[tuple[str, Device, str], Sign] = {}
    for sign in signs:
        key = (sign.kind, sign.device, sign.reason)
        if key not in best or sign.strength > best[key].strength:
            best[key] = sign
    return list(best.values())


def xid_meaning(code: int) -> tuple[str, str, float]:
    """What an Xid means, what to do, and how far it speaks for a broken GPU or a broken program, of
    1."""
    known = XIDS.get(code)
    if known is None:
        return "an error of the driver that is not in the table", UNKNOWN_ACTION, UNKNOWN_XID
    return known.meaning, known.action, max(known.weight, FOLLOWS_ANOTHER)


def _xids(fleet: Fleet) -> Iterator[Sign]:
    seen = first_samples(fleet)
    for gpu in fleet.gpus:
        found: dict[int, tuple[int, int, bool]] = {}
        for part in fleet.of(gs.XID).get(gpu, ()):
            found |= _new_codes(part, fleet, seen.get(gpu, 0))
        for part in fleet.of(gs.XID_EVENTS).get(gpu, ()):
            code = int(part.xid) if part.xid and part.xid.isdecimal() and len(part.xid) < 5 else 0
            steps = increases(part, fleet, seen.get(gpu, 0), falls_restart=False)
            if _is_code(code) and len(steps.times):
                found.setdefault(code, (int(steps.times[0]), int(steps.since[0]), True))
        found = {c: when for c, when in found.items() if when[2] or xid_meaning(c)[2] >= GRAVE}
        if found:
            yield _xid_sign(gpu, found)


def _is_code(value: float) -> bool:
    return value == int(value) and 0 < value <= MOST_XID


def _new_codes(part: Samples, fleet: Fleet, first_seen: int) -> dict[int, tuple[int, int, bool]]:
    """Codes that appear in the incident: when, since when possible, and whether they surely are
    new.

    The exporter keeps the last code until it or the driver restarts, and has no series before the
    first error.
    """
    start, end = fleet.search_ns
    found: dict[int, tuple[int, int, bool]] = {}
    earlier = part.values[part.times < start]
    held = float(earlier[-1]) if len(earlier) else 0.0
    was = int(part.times[part.times < start][-1]) if len(earlier) else 0
    inside = part.between(start, end)
    for at, value in zip(inside.times.tolist(), inside.values.tolist(), strict=True):
        if value != held and _is_code(value):
            sure = bool(was) or (0 < first_seen < at)
            found.setdefault(int(value), (at, was or first_seen or at, sure))
        held, was = value, at
    return found


def _xid_sign(gpu: Device, found: Mapping[int, tuple[int, int, bool]]) -> Sign:
    def weight(code: int) -> float:
        return xid_meaning(code)[2] * (1.0 if found[code][2] else MAYBE_OLD)

    codes = sorted(found, key=lambda code: (-weight(code), found[code][0], code))
    first, others = codes[0], codes[1:3]
    meaning, action, _ = xid_meaning(first)
    at, since, sure = found[first]
    also = f", besides Xid {' and '.join(str(c) for c in others)}" if others else ""
    return Sign(
        kind=XID,
        device=gpu,
        signal=gs.XID,
        strength=weight(first),
        says=f"has Xid {first}: {plain(meaning, 120)}{also}"
        + ("" if sure else ", perhaps from before"),
        reason=str(first),
        fix=f"On {{host}}: {plain(action, 200).rstrip('.')}.",
        source="NVIDIA, XID Errors (docs.nvidia.com/deploy/xid-errors)",
        onset_ns=at,
        uncertainty_s=max(0.0, (at - since) / NS) if sure else 0.0,
        numbers={"incident": float(first), **{f"xid_{c}": float(c) for c in codes[:3]}},
        xids=tuple(codes[:10]),
    )


def _ecc(fleet: Fleet) -> Iterator[Sign]:
    seen = first_samples(fleet)
    for gpu, parts in fleet.of(gs.ECC_DBE).items():
        for part in parts:
            steps = increases(part, fleet, seen.get(gpu, 0))
            if steps.total >= 1:
                yield counted(
                    ECC,
                    gpu,
                    gs.ECC_DBE,
                    0.95,
                    steps,
                    "has {} new uncorrectable memory errors",
                    "Drain {host}, reset the GPU and run dcgmi diag -r 3 on it.",
                    "DCGM health watch: any is a failure",
                )
    for gpu, parts in fleet.of(gs.ECC_SBE).items():
        for part in parts:
            quick = fast(part, fleet, seen.get(gpu, 0), SINGLE_BITS_PER_MINUTE)
            if quick is not None:
                yield counted(
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
    seen = first_samples(fleet)
    words = {
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
    for signal, (says, strength, fix) in words.items():
        for gpu, parts in fleet.of(signal).items():
            for part in parts:
                rise = increases(part, fleet, seen.get(gpu, 0))
                old = not len(rise.times) and len(part.values) and part.values[-1] >= 1
                if len(rise.times) or (old and signal == gs.ROW_REMAP_FAILURE):
                    yield Sign(
                        kind=REMAP,
                        device=gpu,
                        signal=signal,
                        strength=0.25 if old else strength,
                        says=says + (", since before the incident" if old else ""),
                        reason=signal,
                        fix=fix,
                        source=f"{MEMORY_ERRORS}; GCM health checks",
                        onset_ns=None if old else int(rise.times[0]),
                        uncertainty_s=0.0 if old else float(rise.times[0] - rise.since[0]) / NS,
                    )
    for gpu, parts in fleet.of(gs.ROWS_REMAPPED).items():
        for part in parts:
            steps = increases(part, fleet, seen.get(gpu, 0))
            if steps.total >= 1:
                yield counted(
                    REMAP,
                    gpu,
                    gs.ROWS_REMAPPED,
                    0.7,
                    steps,
                    "has {} newly remapped memory rows",
                    "Reset the GPU on {host} after the job and run dcgmi diag -r 3.",
                    MEMORY_ERRORS,
                )
