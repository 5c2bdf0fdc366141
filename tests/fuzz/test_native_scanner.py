"""The C scanner reads its kept corpus and inputs made from it under sanitizers, and they would see
a byte read too far."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.native_scanner import SOURCES


def with_sanitizers(folder: Path) -> bool:
    """Whether gcc is there with both runtimes."""
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    command = ["gcc", "-fsanitize=address,undefined", "empty.c", "-o", "empty"]
    return (
        shutil.which("gcc") is not None
        and subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0
    )


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.fuzz.native_scanner", "--inputs", "300", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_the_corpus_is_read_cleanly_and_a_byte_read_too_far_is_seen(tmp_path: Path) -> None:
    if not with_sanitizers(tmp_path):
        pytest.skip("no gcc with address and undefined-behaviour sanitizers")
    clean = fuzz()
    assert clean.returncode == 0, clean.stderr[-3000:]
    assert "0 found by the sanitizers" in clean.stdout
    broken = shutil.copytree(SOURCES, tmp_path / "native")
    header = broken / "json_walk.h"
    right = "while (p < end && *p >= '0'"
    assert right in header.read_text()
    header.write_text(header.read_text().replace(right, "while (*p >= '0'"))
    seen = fuzz("--sources", str(broken))
    assert seen.returncode != 0
    assert "heap-buffer-overflow" in seen.stderr
    assert "walk_digits" in seen.stderr
