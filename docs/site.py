"""Builds the documentation site, and fails when a link leads nowhere.

python docs/site.py [FOLDER]              the site of this working tree, in dist/docs by default
python docs/site.py [FOLDER] --release    the same in FOLDER/<version>, which becomes the latest
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")

# Pages that are next to what they describe, and where the site has them.
ELSEWHERE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "demo/README.md": "demo.md",
    "infra/container/README.md": "infra/container.md",
    "infra/monitoring/README.md": "infra/monitoring.md",
    "infra/terraform/README.md": "infra/terraform.md",
}

# Scripts and examples lie in docs/ too, and are no pages.
NOT_PAGES = shutil.ignore_patterns("*.py", "__pycache__", "examples")


def place_in_site(source: Path) -> str | None:
    """Where the site has this file of the repository; None if it does not."""
    if source.is_relative_to(HOME / "docs"):
        inside = source.relative_to(HOME / "docs")
        return None if inside.parts[0] == "examples" else inside.as_posix()
    return ELSEWHERE.get(source.relative_to(HOME).as_posix())


def with_links_of_site(page: str, source: Path, place: str) -> str:
    """The page with its links as they are in the site. What is not part of the site, such as a
    Terraform file, keeps its words and loses its link."""

    def rewritten(link: re.Match[str]) -> str:
        words, target, anchor = link.group(1), link.group(2), link.group(3) or ""
        if re.match(r"[a-z]+:", target):
            return link.group()
        file = (source.parent / target).resolve()
        if not file.exists():
            return link.group()  # the build reports it
        there = place_in_site(file)
        if there is None:
            return f"{words} (`{file.relative_to(HOME).as_posix()}`)"
        return f"[{words}]({os.path.relpath(there, Path(place).parent)}{anchor})"

    return LINK.sub(rewritten, page)


def stage(folder: Path) -> None:
    """Everything the site is built from, in one folder."""
    shutil.copytree(HOME / "docs", folder / "docs", ignore=NOT_PAGES)
    shutil.copy(HOME / "zensical.toml", folder)
    pages = {HOME / outside: place for outside, place in ELSEWHERE.items()}
    for page in (folder / "docs").rglob("*.md"):
        place = page.relative_to(folder / "docs").as_posix()
        pages[HOME / "docs" / place] = place
    for source, place in pages.items():
        staged = folder / "docs" / place
        staged.parent.mkdir(exist_ok=True)
        staged.write_text(with_links_of_site(source.read_text(), source, place))


def pages_in(nav: object) -> set[str]:
    if isinstance(nav, str):
        return {nav}
    pages: set[str] = set()
    entries = nav.values() if isinstance(nav, dict) else nav
    for entry in entries:
        pages |= pages_in(entry)
    return pages


def not_in_navigation(docs: Path) -> list[str]:
    """Pages that nobody would find."""
    nav = tomllib.loads((HOME / "zensical.toml").read_text())["project"]["nav"]
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    return sorted(pages - pages_in(nav))


def render(folder: Path) -> None:
    """Run Zensical there. It checks every link within the site, headings too."""
    zensical = Path(sys.executable).with_name("zensical")
    command = [zensical, "build", "--strict", "--clean"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if built.returncode:
        sys.exit(COLOURS.sub("", built.stderr.partition("Traceback")[0]))


def build(target: Path) -> None:
    """The site in `target`, which is replaced."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        stage(folder)
        missing = not_in_navigation(folder / "docs")
        if missing:
            sys.exit(f"not in the navigation of zensical.toml: {', '.join(missing)}")
        render(folder)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folder / "dist" / "docs", target)


def release(folder: Path) -> None:
    """The site of this version beside those of earlier ones, as `mike` lays them out."""
    version = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]["version"]
    build(folder / version)
    listed = folder / "versions.json"
    versions = json.loads(listed.read_text()) if listed.exists() else []
    earlier = [entry for entry in versions if entry["version"] != version]
    for entry in earlier:
        entry["aliases"] = []
    latest = {"version": version, "title": version, "aliases": ["latest"]}
    listed.write_text(json.dumps([latest, *earlier], indent=2))
    (folder / "index.html").write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={version}/">\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=HOME / "dist" / "docs")
    parser.add_argument("--release", action="store_true")
    args = parser.parse_args()
    (release if args.release else build)(args.folder)
    print(f"the site is in {args.folder}")  # noqa: T201


if __name__ == "__main__":
    main()
