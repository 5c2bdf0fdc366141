"""The searches that Splunk is asked, in SPL, and what may be sent at all.

SPL can write (`delete`, `collect`, `outputlookup`, `sendemail`, ...), so a search is only sent when
each of its commands is one of those used here: docs.splunk.com, "Search Reference".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.log_windows import BAD_WORDS, FAILING, CountGrid

COMMANDS = frozenset({"search", "sort", "bin", "stats", "eval", "fields", "head"})
_PARTS = re.compile(r'"(?:[^"\\]|\\.)*"|\||[^"|]+|"')


def literal(text: str) -> str:
    """A string in SPL."""
    printable = "".join(c if c.isprintable() else " " for c in text[:200])
    # An asterisk would stand for anything, and brackets begin a subsearch where no quote is.
    escaped = printable.replace("\\", "\\\\").replace('"', '\\"').replace("*", " ")
    return f'"{escaped}"'


def commands_of(search: str) -> Iterator[str]:
    """The commands of a pipeline; an empty one for what cannot be read."""
    stage = ""
    for part in _PARTS.findall(search):
        if part == "|":
            yield stage.split(None, 1)[0].lower() if stage.strip() else ""
            stage = ""
        elif part == '"' or (not part.startswith('"') and set(part) & set("[]`")):
            # An open quote, a subsearch or a macro.
            yield ""
            return
        else:
            stage += part
    yield stage.split(None, 1)[0].lower() if stage.strip() else ""


def is_reading(search: str) -> bool:
    """Whether it does nothing but read."""
    commands = list(commands_of(search))
    return commands[:1] == ["search"] and COMMANDS.issuperset(commands)


@dataclass(frozen=True)
class LineSearches:
    """Searches for the lines of a service."""

    indexes: Sequence[str]
    service_fields: Sequence[str]
    level_fields: Sequence[str]

    def of(self, names: Sequence[str]) -> str:
        """All of its lines."""
        indexes = " OR ".join(f"index={name}" for name in self.indexes)
        either = []
        for field in self.service_fields:
            either += [f"{field}={literal(name)}" for name in names]
        return f"search ({indexes}) ({' OR '.join(either)})"

    def errors(self, search: str, *, by_level: bool) -> str:
        """Those that are errors: by their level, or by words where no level is known."""
        if not by_level:
            return f"{search} ({' OR '.join(BAD_WORDS)})"
        levels = ", ".join(sorted(FAILING))
        either = " OR ".join(f"{field} IN ({levels})" for field in self.level_fields)
        return f"{search} ({either})"

    def counts(self, search: str, grid: CountGrid) -> str:
        """Lines by level in each step."""
        level = ", ".join(f"'{field}'" for field in self.level_fields)
        return (
            f"{search} | bin _time span={grid.step_s}s "
            f'| eval faultline_level=lower(coalesce({level}, "")) '
            "| stats count by _time, faultline_level"
        )


def saying(search: str, words: Sequence[str]) -> str:
    """Lines that say one of the words."""
    return f"{search} ({' OR '.join(literal(word) for word in words)})"


def first(search: str, limit: int) -> str:
    """The first lines, oldest first."""
    return f"{search} | sort {limit} _time"


def link(web: str, search: str, window: Window) -> str:
    """The search in Splunk Web."""
    between = {"earliest": window.start.timestamp(), "latest": window.end.timestamp()}
    return f"{web}/en-US/app/search/search?{urlencode({'q': search, **between})}"
