"""Prompts are text files beside this one; the first line of each is `version: <number>`.

`{claims}` in a prompt stands for the text of claims.md, which several share.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

SHARED = "claims"
_FIRST_LINE = re.compile(r"version: (\d+)")


@dataclass(frozen=True)
class Prompt:
    """The text of a prompt, without its version line, and that version."""

    name: str
    text: str
    version: str


@cache
def load_prompt(name: str, relations: str = "") -> Prompt:
    """The prompt of that name; `relations` is the list of what a claim may say, in lines. Raises
    FileNotFoundError, or ValueError when the file does not tell its version."""
    content = files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    first, _, rest = content.partition("\n")
    match = _FIRST_LINE.fullmatch(first.strip())
    if not match:
        raise ValueError(f"prompts/{name}.md: the first line must be `version: <number>`")
    text = rest.strip()
    if f"{{{SHARED}}}" in text:
        shared = load_prompt(SHARED, relations)
        text = text.replace(f"{{{SHARED}}}", shared.text.strip())
    return Prompt(name, text.replace("{relations}", relations) + "\n", match[1])
