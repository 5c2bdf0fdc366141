"""Frames of stack traces, where their files lie, and paths that are refused."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.vocabulary import Alert
from faultline.connectors.shared.changes.code_lines import (
    MOST_FRAMES,
    SourceFrame,
    candidates,
    excerpt,
    frames_of,
    safe_path,
    same_file,
    touched,
)


def frames(summary: str, **labels: str) -> list[SourceFrame]:
    """The frames of an alert that says so."""
    at = datetime(2026, 3, 2, tzinfo=UTC)
    return frames_of(Alert(source="t", title="t", started_at=at, summary=summary, labels=labels))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            'File "/app/main.py", line 3, in a\n File "/app/cart/pool.py", line 42, in get',
            ("app/cart/pool.py", 42),
        ),
        (
            "\tat com.shop.Pool.get(Pool.java:42)\n\tat java.base/x.Y.run(Y.java:1)",
            ("com/shop/Pool.java", 42),
        ),
        ("goroutine 1:\n\t/srv/cart/pool.go:42 +0x1d", ("srv/cart/pool.go", 42)),
        ("at get (/app/src/pool.js:42:10)", ("app/src/pool.js", 42)),
        (r"at Shop.Pool.Get() in C:\src\Shop\Pool.cs:line 42", ("src/Shop/Pool.cs", 42)),
        ("thread 'main' panicked at src/pool.rs:42:5", ("src/pool.rs", 42)),
    ],
)
def test_the_innermost_frame_of_each_language_comes_first(
    text: str, found: tuple[str, int]
) -> None:
    assert frames(text)[0] == SourceFrame(*found)
    assert frames("nothing", culprit=text)[0] == SourceFrame(*found)


def test_lines_of_libraries_and_times_of_day_are_no_frames() -> None:
    text = (
        'File "/usr/lib/python3.11/queue.py", line 3\n File '
        '"/x/site-packages/a.py", line 1 at 11:49:12 host:8080'
    )
    assert frames(text) == []


@pytest.mark.parametrize(
    "path",
    [
        "../etc/passwd",
        "a/../../b.py",
        "a\\..\\b.py",
        "/",
        "",
        ".",
        "a\nb.py",
        "a\x00.py",
        "x/" * 40 + "a.py",
        "a" * 500,
        "config/.env",
        "deploy/prod.pem",
        "home/id_rsa",
    ],
)
def test_a_path_that_leads_out_or_to_secrets_is_refused(path: str) -> None:
    assert safe_path(path) is None


@given(st.text(max_size=300))
def test_a_path_that_is_taken_stays_inside(path: str) -> None:
    safe = safe_path(path)
    assert safe is None or (
        not safe.startswith("/") and ".." not in safe.split("/") and "\\" not in safe
    )


@given(st.text(max_size=2000))
def test_any_text_gives_few_safe_frames(text: str) -> None:
    found = frames(text)
    assert len(found) <= MOST_FRAMES
    assert all(safe_path(f.path) == f.path and f.line > 0 for f in found)


@pytest.mark.parametrize("unit", ["a", "a.", "a/", 'File "', "x.Y.z(", " in a", "at a:", "C:\\"])
def test_time_grows_no_faster_than_the_text(unit: str) -> None:
    started = time.process_time()
    frames(unit * (200_000 // len(unit)))
    assert time.process_time() - started < 5


def test_a_file_is_looked_for_among_known_paths_and_then_by_the_paths_own_ends() -> None:
    known = ["src/cart/pool.py", "README.md", "tests/pool.py"]
    assert candidates("app/src/cart/pool.py", known)[0] == "src/cart/pool.py"
    assert candidates("app/src/cart/pool.py", []) == [
        "app/src/cart/pool.py",
        "src/cart/pool.py",
        "cart/pool.py",
        "pool.py",
    ]
    assert candidates("com/shop/Pool.java", [])[0] == "src/main/java/com/shop/Pool.java"
    assert not same_file("app/mypool.py", "pool.py")


def test_changes_that_touch_the_file_of_a_frame_are_named() -> None:
    files = {"one": ["src/cart/pool.py"], "two": ["src/cart/other.py"]}
    assert touched([SourceFrame("app/src/cart/pool.py", 3)], files) == {
        "app/src/cart/pool.py:3": ["one"]
    }


def test_an_excerpt_marks_its_line_and_survives_any_content() -> None:
    content = "\n".join(f"line {n}" for n in range(1, 100)).encode()
    text = excerpt(content, 50)
    assert text.splitlines()[10] == ">    50  line 50"
    assert len(text.splitlines()) == 21
    assert (
        excerpt(content, 1000) == "(the file has 99 lines at this revision, so none of number 1000)"
    )
    assert excerpt(b"\x00\x01", 1) == "(the file is not text)"
    assert excerpt(b"\xff\xfe\x1b[2J\tx" * 100, 1).isprintable()
    assert excerpt(b"", 1).startswith("(the file has 0 lines")
