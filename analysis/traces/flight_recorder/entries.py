"""A dump's plain values to `Dump`: every field is optional, of any type, and hostile.

Versions: 2.4 has no thread names and frames in every form; JSON writes status numbers as text and
leaves out frames; gloo's pg_config holds one group named "" and no ranks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from faultline.analysis.traces.flight_recorder.collective import (
    CallFrame,
    Collective,
    Dump,
    GroupStatus,
    RecordedGroup,
    Shapes,
)

MAX_ENTRIES = 200_000
"""Ten times TorchTitan's ring."""
MAX_FRAMES = 40
MAX_TENSORS = 256
MAX_DIMENSIONS = 8
MAX_GROUPS = 20_000
MAX_RANKS = 100_000
MAX_MEMBERSHIPS = 300_000
"""Over all groups of a dump: a rank of 16,384 in 18 groups that span the job. Groups beyond have no
list of ranks."""
MAX_TEXT = 300
INT64 = 2**63
Values = TypeVar("Values")
P2P_KINDS = ("send", "recv", "recvAnySource")
_BACKEND = re.compile(r"^[A-Za-z0-9_]{1,20}:")
_NUMBER = re.compile(r"\d{1,7}")


def dump_of(
    value: Any,
    rank: int,
    source: str,
    file: str,
    form: str,
    cut_off: bool,
    shared: dict[RecordedGroup, RecordedGroup] | None = None,
) -> Dump | None:
    """The dump of one rank, or None where the value is none. Equal groups of several dumps become
    one in `shared`."""
    if not isinstance(value, dict) or not (
        isinstance(value.get("entries"), list) or "pg_status" in value
    ):
        return None
    shared = {} if shared is None else shared
    groups = {name: shared.setdefault(g, g) for name, g in _groups(value.get("pg_config")).items()}
    reader = _Entries(groups, shared)
    listed = value.get("entries")
    raw = listed[:MAX_ENTRIES] if isinstance(listed, list) else []
    entries = [e for e in map(reader.entry, raw) if e is not None]
    return Dump(
        rank=rank,
        rank_source=source,
        file=file,
        form=form,
        version=_text(value.get("version")),
        groups=groups,
        status=_status(value.get("pg_status")),
        local_ids=reader.local_ids,
        entries=tuple(sorted(entries, key=lambda e: e.record)),
        cut_off=cut_off,
        left_out=(len(listed) if isinstance(listed, list) else 0) - len(entries),
    )


class _Entries:
    """Reads entries of one dump; groups and stacks that are equal become one value."""

    def __init__(
        self, groups: Mapping[str, RecordedGroup], shared: dict[RecordedGroup, RecordedGroup]
    ) -> None:
        self.groups = groups
        self._shared = shared
        self.local_ids: dict[int, RecordedGroup] = {}
        self._group_by_key: dict[tuple[str, str], RecordedGroup] = {}
        self._stacks: dict[tuple[CallFrame, ...], tuple[CallFrame, ...]] = {}
        self._read: dict[tuple[str, int], Any] = {}

    def entry(self, raw: Any) -> Collective | None:
        """One entry; None where it is no dict or has no group."""
        if not isinstance(raw, dict):
            return None
        group = self._group(raw)
        name = _text(raw.get("profiling_name"))
        op = _BACKEND.sub("", name)
        # Where a dump lacks the field, the operation's name tells.
        is_p2p = raw["is_p2p"] is True if "is_p2p" in raw else op.split(" ", 1)[0] in P2P_KINDS
        return Collective(
            # The names of these fields differ between versions.
            record=_integer(raw.get("record_id"), _integer(raw.get("id"), 0)),
            group=group,
            seq=_integer(raw.get("collective_seq_id"), _integer(raw.get("seq_id"), 0)),
            p2p_seq=_integer(raw.get("p2p_seq_id"), 0),
            backend=name[: len(name) - len(op)].removesuffix(":").lower(),
            op=op,
            is_p2p=is_p2p,
            input_sizes=self._once(_shapes, raw.get("input_sizes")),
            output_sizes=self._once(_shapes, raw.get("output_sizes")),
            input_dtypes=self._once(_texts, raw.get("input_dtypes")),
            output_dtypes=self._once(_texts, raw.get("output_dtypes")),
            created_ns=_integer(raw.get("time_created_ns"), 0),
            state=_text(raw.get("state")),
            retired=raw.get("retired") is True,
            timeout_ms=_integer(raw.get("timeout_ms"), 0),
            frames=self._once(self._stack, raw.get("frames")),
        )

    def _once(self, read: Callable[[Any], Values], raw: Any) -> Values:
        """Read each list of the file once, however often a hostile pickle refers to it; the file's
        value lives on."""
        key = (read.__name__, id(raw))
        if key not in self._read:
            self._read[key] = read(raw)
        values: Values = self._read[key]
        return values

    def _group(self, raw: dict[str, Any]) -> RecordedGroup:
        pair = raw.get("process_group")
        if isinstance(pair, list | tuple) and len(pair) == 2:
            name, description = _text(pair[0]), _text(pair[1])
        else:
            name, description = str(_integer(raw.get("pg_id"), 0)), ""
        group = self._group_by_key.get((name, description))
        if group is None:
            group = self.groups.get(name) or RecordedGroup(name, description)
            group = self._group_by_key[name, description] = self._shared.setdefault(group, group)
        local = _integer(raw.get("pg_id"), -1)
        if local >= 0:
            self.local_ids.setdefault(local, group)
        return group

    def _stack(self, raw: Any) -> tuple[CallFrame, ...]:
        if not isinstance(raw, list):
            return ()
        stack = tuple(
            CallFrame(
                _text(item.get("name")), _text(item.get("filename")), _integer(item.get("line"), 0)
            )
            for item in raw[:MAX_FRAMES]
            if isinstance(item, dict)
        )
        return self._stacks.setdefault(stack, stack)


def _groups(raw: Any) -> dict[str, RecordedGroup]:
    """pg_config; gloo's one entry "" is the default group's where it lists ranks."""
    groups: dict[str, RecordedGroup] = {}
    observed_ranks: dict[str, tuple[int, ...]] = {}
    memberships = 0
    for key, item in _first_items(raw):
        if not isinstance(item, dict):
            continue
        listed = item.get("ranks")
        # A hostile dump may give the same long text to every group: it is read once.
        if isinstance(listed, str):
            if listed not in observed_ranks:
                observed_ranks[listed] = _ranks(listed)
            ranks = observed_ranks[listed]
        else:
            ranks = _ranks(listed)
        memberships += len(ranks)
        if memberships > MAX_MEMBERSHIPS:
            ranks = ()
        name = _text(item.get("name")) or _text(key)
        if name:
            groups[name] = RecordedGroup(name, _text(item.get("desc")), ranks)
        elif ranks:
            groups["0"] = RecordedGroup("0", "default_pg", ranks)
    return groups


def _first_items(raw: Any) -> list[tuple[Any, Any]]:
    if not isinstance(raw, dict):
        return []
    return list(raw.items())[:MAX_GROUPS]


def _ranks(raw: Any) -> tuple[int, ...]:
    """ "[0, 1]", or a list."""
    if isinstance(raw, str):
        # A number of 7 digits and its comma take 8 characters.
        numbers = _NUMBER.findall(raw[: MAX_RANKS * 8])
        return tuple(int(number) for number in numbers)[:MAX_RANKS]
    if not isinstance(raw, list | tuple):
        return ()
    ranks = []
    for item in raw[:MAX_RANKS]:
        rank = _integer(item, -1)
        if rank >= 0:
            ranks.append(rank)
    return tuple(ranks)


def _status(raw: Any) -> dict[int, GroupStatus]:
    status: dict[int, GroupStatus] = {}
    for key, item in _first_items(raw):
        local = _integer(key, -1)
        if local >= 0 and isinstance(item, dict):
            enqueued = _integer(item.get("last_enqueued_collective"), -1)
            completed = _integer(item.get("last_completed_collective"), -1)
            status[local] = GroupStatus(enqueued, completed)
    return status


def _integer(raw: Any, default: int) -> int:
    """An int64, also from text (JSON dumps); the default for anything else."""
    # An int64 has at most 20 characters; converting longer text would be slow.
    if isinstance(raw, str) and len(raw) <= 20:
        try:
            raw = int(raw)
        except ValueError:
            return default
    if isinstance(raw, bool) or not isinstance(raw, int) or not -INT64 <= raw < INT64:
        return default
    return raw


def _text(raw: Any) -> str:
    return raw[:MAX_TEXT] if isinstance(raw, str) else ""


def _texts(raw: Any) -> tuple[str, ...]:
    if not isinstance(raw, list | tuple):
        return ()
    return tuple(_text(item) for item in raw[:MAX_TENSORS])


def _shapes(raw: Any) -> Shapes:
    if not isinstance(raw, list | tuple):
        return ()
    shapes = []
    for shape in raw[:MAX_TENSORS]:
        if isinstance(shape, list | tuple):
            shapes.append(tuple(_integer(size, -1) for size in shape[:MAX_DIMENSIONS]))
    return tuple(shapes)
