"""`./run test ROOM` refuses what is no room before it installs or checks anything."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(not (HOME / ".tools/uv/bin/uv").exists(), reason="./run would set itself up")
@pytest.mark.parametrize(
    ("room", "reason"),
    [
        ("bot/nothing_of_that_name", "is no folder of this project"),
        ("docs/images", "has no tests: there is no folder tests/docs/images"),
    ],
)
def test_a_room_without_tests_is_refused(room: str, reason: str) -> None:
    ended = subprocess.run(
        ["./run", "test", room],
        cwd=HOME,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr == f"run: {room} {reason}\n"
    assert ended.stdout == ""
