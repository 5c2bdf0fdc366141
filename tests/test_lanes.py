"""The table of lanes names files and tests that exist, each once and with a reason."""

from __future__ import annotations

import re
import tomllib

from tests.lanes import ROOT, TABLE, read_lanes

LANES = read_lanes()


def test_every_path_of_the_table_exists() -> None:
    paths = [place.partition("::")[0] for place in (*LANES.second, *LANES.long, *LANES.first_case)]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_test_of_the_table_is_one_of_its_file() -> None:
    tests = [(path, name) for path, names in LANES.long.items() for name in sorted(names)]
    tests += [(path, name) for path, _, name in (s.partition("::") for s in LANES.second) if name]
    missing = [
        f"{path}::{name}"
        for path, name in tests
        if not re.search(rf"def {name}\(", (ROOT / path).read_text())
    ]
    assert missing == []


def test_no_path_is_in_the_table_twice() -> None:
    assert [path for path in LANES.long if LANES.is_second(path) and LANES.long[path]] == []
    table = tomllib.loads(TABLE.read_text())
    paths = [path for group in table["second"] for path in group["paths"]]
    assert len(paths) == len(set(paths))


def test_every_group_of_the_table_has_a_reason() -> None:
    table = tomllib.loads(TABLE.read_text())
    groups = [*table["second"], table["long"], table["first_case"]]
    assert all(group["reason"] for group in groups)
