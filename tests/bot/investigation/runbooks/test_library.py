"""Reading directories: each file stands alone, nothing outside is read, and every fault has its
file and line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faultline.bot.investigation.runbooks import library as library_module
from faultline.bot.investigation.runbooks.library import read_library
from tests.bot.investigation.runbooks.runbook_files import write

GOOD = """
    ---
    match:
      services: checkout
    ---
    Look at the queue.
    """


def problems(*directories: str) -> list[str]:
    return [str(problem) for problem in read_library(directories).problems]


def test_every_markdown_file_below_is_a_runbook_but_for_readmes_and_hidden_ones(
    tmp_path: Path,
) -> None:
    directory = write(tmp_path, a=GOOD, deep__b=GOOD, README="# Our runbooks", **{".hidden": GOOD})
    library = read_library([directory])
    assert list(library.runbooks) == ["a.md", "deep/b.md"]
    assert library.runbooks["a.md"].text == "Look at the queue."
    assert library.problems == []


def test_of_two_with_the_same_path_the_first_directory_counts_and_the_second_is_told(
    tmp_path: Path,
) -> None:
    one, two = write(tmp_path / "one", a=GOOD), write(tmp_path / "two", a=GOOD, b=GOOD)
    library = read_library([one, two])
    assert {path: r.directory for path, r in library.runbooks.items()} == {"a.md": one, "b.md": two}
    assert [str(p) for p in library.problems] == [
        f"{two}/a.md:1: is not read: {one}/a.md has the same path"
    ]


def test_a_wrong_file_costs_only_itself(tmp_path: Path) -> None:
    directory = write(tmp_path, good=GOOD, bad="---\na: [\n---\n", page="# no front matter")
    (tmp_path / "bytes.md").write_bytes(b"---\nname: x\n\xff\n---\n")
    (tmp_path / "long.md").write_bytes(b"x" * (library_module.LONGEST_FILE + 1))
    os.mkfifo(tmp_path / "pipe.md")
    library = read_library([directory])
    assert list(library.runbooks) == ["good.md"]
    told = {Path(p.file).name: p.text for p in library.problems}
    assert set(told) == {"bad.md", "page.md", "bytes.md", "long.md", "pipe.md"}
    assert told["bytes.md"] == "is not UTF-8 text"
    assert told["pipe.md"] == "is not a file"


def test_links_that_lead_out_of_the_directory_are_not_followed(tmp_path: Path) -> None:
    directory = write(tmp_path / "shelf", a=GOOD)
    outside = tmp_path / "secret.md"
    outside.write_text(GOOD)
    (tmp_path / "shelf" / "linked.md").symlink_to(outside)
    (tmp_path / "shelf" / "folder").symlink_to(tmp_path)
    (tmp_path / "shelf" / "inside.md").symlink_to(tmp_path / "shelf" / "a.md")
    (tmp_path / "shelf" / "dead.md").symlink_to(tmp_path / "shelf" / "gone")
    library = read_library([directory])
    assert list(library.runbooks) == ["a.md", "inside.md"]
    assert {Path(p.file).name for p in library.problems} == {"linked.md", "dead.md"}


def test_a_missing_directory_is_one_problem(tmp_path: Path) -> None:
    assert problems(str(tmp_path / "gone")) == [
        f"{tmp_path}/gone:1: is not a directory: see runbooks.directories"
    ]


def test_more_files_than_anyone_keeps_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_module, "MOST_FILES", 2)
    library = read_library([write(tmp_path, a=GOOD, b=GOOD, c=GOOD)])
    assert list(library.runbooks) == ["a.md", "b.md"]
    assert "more than 2 runbooks" in library.problems[0].text


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("nam: x", ":2: nam: no such key; did you mean name?"),
        ("match:\n  servces: a", ":3: match.servces: no such key; did you mean services?"),
        (
            "look_at:\n  prometheos:\n    a: b",
            ":3: look_at.prometheos: no such key; did you mean prometheus?",
        ),
        (
            "look_at:\n  before_alert: soon",
            ":3: look_at.before_alert: must be a length of time like 90m, 2h or 1d",
        ),
        (
            "look_at:\n  baseline: 90d",
            ":3: look_at.baseline: input should be less than or equal to 4320",
        ),
        (
            "expected:\n  - because: b\n    between: 25:00-26:00",
            ":4: expected.1.between: must be hours of the day",
        ),
        ("expected:\n  - between: 02:00-03:00", ":3: expected.1: a key is missing"),
        (
            "expected:\n  because: b\n  between:\n    hours: 02:00-03:00\n    timezone: "
            "../etc/passwd",
            ":6: expected.between.timezone: is not the name of a time zone",
        ),
        ("links:\n  - url: https://x", ":3: links.1: a key is missing"),
        ("next_steps:\n  - a: b", ":3: next_steps.1: input should be a valid string"),
        ("match: checkout", ":2: match: "),
        (
            "look_at:\n  prometheus:\n    q: up{s={service}}",
            ':4: look_at.prometheus.q: write placeholders as service=~"{service}"',
        ),
        (
            "look_at:\n  prometheus:\n    error_ratio: up",
            ":4: look_at.prometheus.error_ratio: is a signal that",
        ),
        (
            "look_at:\n  prometheus:\n    'a b': up",
            ":4: look_at.prometheus.a b: a signal's name is letters",
        ),
        ("look_at:\n  datadog:\n    q: what", ":4: look_at.datadog.q: must be a metric query like"),
    ],
)
def test_each_wrong_key_is_one_line_that_says_what_it_should_be(
    tmp_path: Path, head: str, said: str
) -> None:
    directory = write(tmp_path, a="---\n" + head + "\n---\n")
    (line,) = problems(directory)
    assert said in line
    assert line.startswith(f"{directory}/a.md:")


def test_what_is_right_beside_a_wrong_key_still_counts(tmp_path: Path) -> None:
    directory = write(
        tmp_path, a="---\nname: A\nownr: B\nmatch:\n  services: checkout\nnext_steps: 7\n---\n"
    )
    library = read_library([directory])
    keys = library.runbooks["a.md"].keys
    assert keys.name == "A"
    assert keys.match is not None
    assert keys.next_steps == ("7",)
    assert len(library.problems) == 1


def test_a_name_that_cannot_be_stored_is_told_and_not_read(tmp_path: Path) -> None:
    directory = write(tmp_path, a=GOOD)
    for name in (b"bad\xff.md", b"two\nlines.md", "right\u202eleft.md".encode()):
        (Path(os.fsdecode(os.fsencode(directory) + b"/" + name))).write_text(GOOD)
    library = read_library([directory])
    assert list(library.runbooks) == ["a.md"]
    assert len(library.problems) == 3
    for problem in library.problems:
        assert "rename it" in problem.text
        assert str(problem).isprintable()
