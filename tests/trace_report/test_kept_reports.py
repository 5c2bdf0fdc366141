"""All numbers of two small jobs, and what terminal and page show of them, kept as text."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kept import assert_kept
from tests.trace_report.command import STRAGGLER, trace, write_job
from tests.trace_report.gpu_job import write_gpu_job

FOLDER = Path(__file__).parent / "kept_reports"
JOBS: dict[str, Callable[[Path], Path]] = {
    "gpus": write_gpu_job,
    "straggler": lambda folder: write_job(folder, STRAGGLER),
}


def rows(value: Any, path: str) -> Iterator[str]:
    """A line for each row of a table, and for each value that stands alone."""
    if isinstance(value, dict) and any(isinstance(part, (dict, list)) for part in value.values()):
        for key, part in value.items():
            yield from rows(part, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(part, (dict, list)) for part in value):
        for part in value:
            yield from rows(part, path)
    else:
        yield f"{path}: {json.dumps(value)}"


def page_text(page: str) -> str:
    """What is written on a page, and a digest of what is drawn on it."""
    body = re.sub(r"(?s)<(script|style)\b.*?</\1>", "", page[page.index("<main>") :])
    drawn = re.findall(r'(?s)<svg.*?</svg>|style="[^"]*"', body)
    digest = hashlib.sha256("\n".join(drawn).encode()).hexdigest()[:16]
    written = (line.strip() for line in re.sub(r"<[^>]+>", "\n", body).splitlines())
    return "\n".join([*(line for line in written if line), f"{len(drawn)} drawn: {digest}"])


@pytest.mark.parametrize("name", JOBS)
def test_a_report_says_what_is_kept(name: str, tmp_path: Path) -> None:
    folder, page = JOBS[name](tmp_path / "job"), tmp_path / "page.html"
    shown, document = trace(folder, "--html", page), trace(folder, "--json")
    assert (shown.returncode, document.returncode) == (0, 0), shown.stderr + document.stderr
    lines = rows(json.loads(document.stdout), "")
    text = "\n".join([shown.stdout, page_text(page.read_text()), *lines, ""])
    assert_kept(FOLDER / f"{name}.txt", text.replace(str(tmp_path), ""))
