"""What the pages name exists: files, headings, settings, commands, options."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from faultline.bot.cli.main import app
from faultline.bot.settings import Settings, sections_that_repeat
from faultline.bot.settings.loading import settings_of

HOME = Path(__file__).resolve().parents[2]
ELSEWHERE = {"cases", ".terraform", "node_modules"}
FOUND = (
    page
    for folder in ("docs", "infra", "demo", "benchmarks")
    for page in (HOME / folder).rglob("*.md")
)
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
PAGES += sorted(
    page.relative_to(HOME).as_posix() for page in FOUND if not ELSEWHERE & set(page.parts)
)
LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")
VARIABLE = re.compile(r"\bFAULTLINE_([A-Z0-9_]+?)__([A-Z0-9_]+)\b")
COMMAND = re.compile(r"(?:^ {4}|^|`)(?:\./run|faultline) (.+?)(?:`|$)", re.MULTILINE)

OF_RUN = set(re.findall(r"^([a-z]+)\)$", (HOME / "run").read_text(), re.MULTILINE))
"""Commands of `./run` itself."""


@cache
def text(page: str) -> str:
    return (HOME / page).read_text()


def without_code(page: str) -> str:
    return re.sub(r"```.*?```", "", text(page), flags=re.DOTALL)


@cache
def anchors(page: str) -> set[str]:
    """The ids that GitHub gives the headings of a page."""
    made: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.+)$", without_code(page), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        made.add(next(s for n in range(100) if (s := f"{slug}-{n}" if n else slug) not in made))
    return made


def broken(page: str) -> Iterator[str]:
    for target in (a or b for a, b in LINK.findall(without_code(page))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (HOME / page).parent / path if path else HOME / page
        if not found.exists():
            yield f"{target}: no such file"
        elif (
            anchor
            and found.suffix == ".md"
            and anchor not in anchors(found.resolve().relative_to(HOME).as_posix())
        ):
            yield f"{target}: no such heading"


@pytest.mark.parametrize("page", PAGES)
def test_every_link_within_the_project_leads_somewhere(page: str) -> None:
    assert list(broken(page)) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_variable_is_a_setting(page: str) -> None:
    for section, key in VARIABLE.findall(text(page)):
        assert section.lower() in Settings.model_fields, f"{section}__{key}"
        annotation = Settings.model_fields[section.lower()].annotation
        assert annotation is not None
        if section.lower() in sections_that_repeat(Settings):
            # The name of one of several may stand before the key.
            key = key.rpartition("__")[2]  # noqa: PLW2901
        assert key.lower().removesuffix("_file") in annotation.model_fields, f"{section}__{key}"


@cache
def program() -> Any:
    """The command line with all of its commands."""
    return typer.main.get_command(app)


def command_of(words: list[str]) -> Any:
    """The command or group that these words call."""
    found = program()
    for word in words:
        if word not in getattr(found, "commands", {}):
            break
        found = found.commands[word]
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_option_exists(page: str) -> None:
    for line in COMMAND.findall(text(page)):
        words = line.split("   ")[0].split()
        if words[0] in OF_RUN or not re.fullmatch(r"[a-z]+", words[0]):
            continue
        assert words[0] in program().commands, line
        command = command_of(words)
        meant = [command, *getattr(command, "commands", {}).values()]
        known = {option for one in meant for parameter in one.params for option in parameter.opts}
        for option in (
            w.strip("[],.").split("=")[0] for w in words if w.strip("[").startswith("--")
        ):
            assert option in known | {"--help"}, line


def test_the_changelog_begins_with_the_programs_version() -> None:
    version = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]["version"]
    named = re.findall(r"^## ([^\n]+)$", text("CHANGELOG.md"), re.MULTILINE)
    assert named[0] == "Unreleased"
    assert named[1].split(" ")[0] == version


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), ["README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        for target in (a or b for a, b in LINK.findall(text(page))):
            found = ((HOME / page).parent / target.partition("#")[0]).resolve()
            pages = (
                found.rglob("*.md") if found.is_dir() else [found] if found.suffix == ".md" else []
            )
            waiting += [
                p.relative_to(HOME).as_posix()
                for p in pages
                if p.is_relative_to(HOME) and p.exists()
            ]
    assert set(PAGES) - reached == set()


@pytest.mark.parametrize("page", [page for page in PAGES if "```toml" in text(page)])
def test_every_settings_example_is_understood(page: str) -> None:
    for example in re.findall(r"```toml\n(.*?)```", text(page), re.DOTALL):
        tables = tomllib.loads(example)
        if set(tables) <= set(Settings.model_fields):
            settings_of(tables, {})
