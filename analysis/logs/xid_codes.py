"""What the numbers of NVIDIA's driver errors (Xid) mean: the entries of xid_codes.toml, read and
checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

from faultline.analysis.errors import EvidenceError
from faultline.analysis.logs.failure_signatures import (
    LINE_LIMIT,
    SIGNATURES,
    Accused,
    Signature,
    read_toml,
)

FILE = Path(__file__).with_name("xid_codes.toml")
UNKNOWN_ACTION = "Look the number up in NVIDIA's catalogue (docs.nvidia.com/deploy/xid-errors)."


@dataclass(frozen=True)
class Xid:
    """One number."""

    code: int
    name: str
    meaning: str
    action: str
    """NVIDIA's immediate action, then what it asks for if the error comes back; without a capital
    and a full stop."""
    accuses: Accused
    weight: float

    @property
    def is_hardware(self) -> bool:
        """Whether the GPU is to blame, not an application, nor another error."""
        return self.accuses == "gpu"


def read_xids(file: Path = FILE) -> dict[int, Xid]:
    """The codes by number. Raises EvidenceError naming the code."""
    tables = read_toml(file)
    actions, codes = tables.get("actions"), tables.get("codes")
    if not isinstance(actions, Mapping) or not isinstance(codes, Mapping):
        raise EvidenceError(file.name, "must hold the tables [actions] and [codes]")
    xids = [_xid(file.name, code, row, actions) for code, row in codes.items()]
    return {xid.code: xid for xid in xids}


def _xid(file: str, code: str, row: Any, actions: Mapping[str, Any]) -> Xid:
    where = f"code {code}"
    if not _is_number(code) or not isinstance(row, Mapping):
        raise EvidenceError(file, "must be a number with a table", where)
    name, meaning, accuses = row.get("name"), row.get("meaning"), row.get("accuses")
    if not _is_text(name) or not _is_text(meaning):
        raise EvidenceError(file, "name and meaning must be texts", where)
    if accuses not in get_args(Accused):
        raise EvidenceError(file, f"accuses must be one of {', '.join(get_args(Accused))}", where)
    if "now" not in row:
        raise EvidenceError(file, "now and then must be names of [actions]", where)
    steps = [actions.get(str(row[key])) for key in ("now", "then") if key in row]
    if not all(_is_action(step) for step in steps):
        raise EvidenceError(file, "now and then must be names of [actions]", where)
    weight = 0.0
    # NVIDIA's immediate action is the harsher, the more likely the GPU is broken.
    if accuses != "nobody" and steps[0]:
        weight = float(steps[0]["weight"])
    return Xid(
        int(code), str(name), str(meaning), _action_text(steps), cast(Accused, accuses), weight
    )


def _is_number(code: str) -> bool:
    # Other digits, such as superscripts, are no numbers to int().
    return code.isascii() and code.isdigit() and len(code) <= 4


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_action(step: object) -> bool:
    return isinstance(step, Mapping) and isinstance(step.get("say"), str)


def _action_text(steps: Sequence[Any]) -> str:
    """The actions as the beginning of a sentence; an action that comes twice is said once."""
    sentences = dict.fromkeys(str(step["say"]) for step in steps if step)
    text = " ".join(sentences).rstrip(".")
    # A proper name keeps its capital within a sentence.
    if text.startswith("NVIDIA"):
        return text
    return text[:1].lower() + text[1:]


XIDS = read_xids()
XID = next(s for s in SIGNATURES if s.name == "xid").pattern
"""Groups: the device, the number."""


def specific_signature(signature: Signature, line: str) -> Signature:
    """The signature as the line shows it: an Xid line with the meaning and action of its number."""
    number = XID.search(line[:LINE_LIMIT]) if signature.name == "xid" else None
    if number is None:
        return signature
    code = int(number[2])
    xid = XIDS.get(code)
    if xid is None:
        meaning = f"the NVIDIA driver reports Xid {code}, which is not in the table"
        return replace(signature, name=f"xid_{code}", meaning=meaning, action=UNKNOWN_ACTION)
    return replace(
        signature,
        name=f"xid_{code}",
        meaning=f"the NVIDIA driver reports Xid {code}, {xid.meaning}",
        action=f"{xid.action[:1].upper()}{xid.action[1:]}.",
        accuses=xid.accuses,
        weight=xid.weight,
        symptom=xid.accuses in ("rank", "nobody"),
    )
