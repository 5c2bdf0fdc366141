"""Writes the tables of infra/terraform/README.md from the modules' files: `python -m
infra.checks.module_page`."""

from __future__ import annotations

import re
from pathlib import Path

ROOM = Path(__file__).parents[1] / "terraform"
PAGE = ROOM / "README.md"
TABLES = "<!-- tables -->"
_BLOCK = re.compile(r'^(variable|output) "(\w+)" \{\n(.*?)^\}', re.MULTILINE | re.DOTALL)
_TEXT = re.compile(r'^  description = "(.*)"$', re.MULTILINE)
_TYPE = re.compile(r"^  type\s+= (.*)$", re.MULTILINE)
_DEFAULT = re.compile(r"^  default\s+= (.*)$", re.MULTILINE)
MODULES = {
    ".": "the module",
    "modules/case-store": "case-store",
    "modules/read-only-role": "read-only-role",
}


def page() -> str:
    """The page: what is written by hand, then the tables."""
    head, _, _ = PAGE.read_text(encoding="utf-8").partition(TABLES)
    return (
        head + TABLES + "\n" + "".join(_tables(folder, title) for folder, title in MODULES.items())
    )


def _tables(folder: str, title: str) -> str:
    inputs = "".join(_input(name, body) for name, body in _blocks(ROOM / folder / "variables.tf"))
    outputs = "".join(
        f"| `{name}` | {_description(body)} |\n"
        for name, body in _blocks(ROOM / folder / "outputs.tf")
    )
    return (
        f"\n## Inputs of {title}\n\n| name | type | default | meaning "
        f"|\n|---|---|---|---|\n{inputs}"
        f"\n## Outputs of {title}\n\n| name | meaning |\n|---|---|\n{outputs}"
    )


def _blocks(file: Path) -> list[tuple[str, str]]:
    return [(name, body) for _, name, body in _BLOCK.findall(file.read_text(encoding="utf-8"))]


def _input(name: str, body: str) -> str:
    default, kind = _DEFAULT.search(body), _TYPE.search(body)
    shown = "**required**" if default is None else "" if default[1] == "null" else f"`{default[1]}`"
    return f"| `{name}` | `{kind[1] if kind else 'any'}` | {shown} | {_description(body)} |\n"


def _description(body: str) -> str:
    match = _TEXT.search(body)
    return match[1].replace("|", "\\|") if match else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
