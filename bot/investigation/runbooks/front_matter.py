"""The YAML between two lines of `---` at the top of a Markdown file, read as plain data with its
line numbers.

Only what a person writes by hand is taken: mappings, lists and text. Anchors, aliases and tags are
refused, so that a file can neither grow when it is read nor name a Python object; so are keys that
stand twice and deep nesting. Every scalar stays text: `no`, `02:00` and `0123` are what was
written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml  # type: ignore[import-untyped]

LONGEST_FRONT_MATTER = 16_384
"""Characters. A long runbook has its length in the text below."""
DEEPEST = 8
FENCE = "---"

Place = tuple[str | int, ...]
"""Where a value stands: the keys and list indices that lead to it."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a file, in a sentence that says what it should be. Lines count
    from 1."""

    line: int
    text: str


@dataclass
class FrontMatter:
    """`values` as plain dicts, lists and texts; `lines` says where each stands; `text` is the
    Markdown below."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[Place, int] = field(default_factory=dict)
    text: str = ""

    def line_of(self, place: Place) -> int:
        """The line of a value, or of the nearest that holds it."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


class _Refused(Exception):
    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.problem = Problem(line, text)


def read_front_matter(document: str) -> FrontMatter | Problem:
    """The parts of a Markdown file, or the first reason why it has none."""
    # Editors on Windows begin a file with a byte order mark.
    lines = document.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != FENCE:
        return Problem(1, f"has no front matter: the first line must be {FENCE}")
    end = next((n for n, line in enumerate(lines[1:], start=1) if line.rstrip() == FENCE), None)
    if end is None:
        return Problem(1, f"the front matter does not end: a second line of {FENCE} is missing")
    head = "\n".join(lines[1:end])
    if len(head) > LONGEST_FRONT_MATTER:
        phrase = (
            f"the front matter has {len(head)} characters; at most {LONGEST_FRONT_MATTER} are read"
        )
        return Problem(1, f"{phrase}: put the prose below it")
    read = FrontMatter(text="\n".join(lines[end + 1 :]).strip())
    try:
        root = _compose(head)
        if root is None:
            return read
        if not isinstance(root, yaml.MappingNode):
            raise _Refused(_line(root), "the front matter must be `key: value` lines")
        read.values = _mapping(root, (), read.lines)
    except _Refused as refused:
        return refused.problem
    return read


def _compose(head: str) -> yaml.Node | None:
    try:
        _only_plain(head)
        return yaml.compose(head, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(str(error.problem or error.context or "").split())[:160]
        # YAML counts lines from 0, and the fence before it is a line, too.
        raise _Refused((mark.line if mark else 0) + 2, f"is not valid YAML: {reason}") from None
    except yaml.YAMLError:
        raise _Refused(
            2, "is not valid YAML: it holds characters that YAML does not allow"
        ) from None


def _only_plain(head: str) -> None:
    """Refuse, before anything is built, what could grow or name a type; the depth is bounded here,
    too."""
    depth = 0
    for event in yaml.parse(head, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 2
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _Refused(
                line,
                "anchors and aliases (& and *) are not read; put text that begins so in quotes",
            )
        if getattr(event, "tag", None):
            raise _Refused(line, "tags (!) are not read; put text that begins so in quotes")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        if depth > DEEPEST:
            raise _Refused(line, f"is nested deeper than {DEEPEST} levels")


def _value(node: yaml.Node, place: Place, lines: dict[Place, int]) -> Any:
    lines[place] = _line(node)
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, place, lines)
    if isinstance(node, yaml.SequenceNode):
        return [_value(node, (*place, n), lines) for n, node in enumerate(node.value)]
    return None if node.tag == "tag:yaml.org,2002:null" else _visible(str(node.value))


def _mapping(node: yaml.MappingNode, place: Place, lines: dict[Place, int]) -> dict[str, Any]:
    values_by_name: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _Refused(_line(key), "a key must be text")
        name = _visible(str(key.value))
        if name in values_by_name:
            raise _Refused(_line(key), f"{name!r:.60} stands twice")
        values_by_name[name] = _value(value, (*place, name), lines)
        # A value may begin on a later line than its key.
        lines[(*place, name)] = _line(key)
    return values_by_name


def _visible(text: str) -> str:
    """Without what an escape like "\\u202e" or "\\ud800" could smuggle in: hidden, reordering or
    unfit to be stored."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


def _line(node: yaml.Node) -> int:
    """In the file: after the first fence, from 1."""
    return int(node.start_mark.line) + 2
