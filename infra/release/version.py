"""Holds a tag to the project: `python -m infra.release.version v1.2.3` fails unless that is the
version, and the changelog has a section for it. With --notes, prints that section."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class NotThisVersion(Exception):
    """The tag, the project and the changelog do not agree."""


def notes_of(tag: str, root: Path = ROOT) -> str:
    """What the changelog says of the version that the tag names. Raises NotThisVersion."""
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    if tag != f"v{version}":
        raise NotThisVersion(f"the tag is {tag}, pyproject.toml says {version}")
    sections = re.split(r"^## ", (root / "CHANGELOG.md").read_text(), flags=re.M)
    for section in sections:
        heading, _, text = section.partition("\n")
        if re.match(rf"\[?{re.escape(version)}\b", heading):
            return text.strip() + "\n"
    raise NotThisVersion(f"CHANGELOG.md has no section for {version}")


def main() -> None:
    """Say whether they agree."""
    try:
        notes = notes_of(sys.argv[1])
    except NotThisVersion as error:
        sys.exit(f"version: {error}")
    if "--notes" in sys.argv[2:]:
        sys.stdout.write(notes)


if __name__ == "__main__":
    main()
