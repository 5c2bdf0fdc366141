"""The lines of code that an alert's stack trace names: frames from text, and an excerpt of a file
around a line.

A path from an alert is hostile: one that leads out of the repository, or to a file that holds
secrets, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from faultline.analysis.vocabulary import Alert
from faultline.connectors.shared.changes.code_changes import SECRET_PATHS

MOST_TEXT = 32_768
MOST_FRAMES = 20
AROUND = 10
"""Lines shown before and after the one that is named."""
LINE_LENGTH = 200
MOST_PATH, MOST_SEGMENTS, MOST_PROBES = 400, 32, 6
LARGEST_FILE = 1024 * 1024
"""Bytes; GitHub's contents API gives no content of a larger file
(docs.github.com/rest/repos/contents)."""

_PYTHON = re.compile(r'File "([^"\n]{1,300})", line (\d{1,7})')
_DOTNET = re.compile(r"(?<= in )([^\s:][^\n:]{0,300}|[A-Za-z]:\\[^\n:]{1,300}):line (\d{1,7})")
# A JVM frame names a class and a bare file name: "com.shop.Cart.add(Cart.java:12)".
_JVM = re.compile(
    r"(?<![\w.$])([A-Za-z_][\w.$]{0,200})\.[\w$<>]{1,100}"
    r"\(([A-Za-z_]\w{0,100}\.(?:java|kt|scala|groovy)):(\d{1,7})\)"
)
_PLACE = re.compile(r"(?<![\w@.+~/\\-])(?:[A-Za-z]:)?([\w@.+~/\\-]{1,300}):(\d{1,7})(?!\d)")
"""Tracebacks of Python (docs.python.org/3/library/traceback), .NET and the JVM; `file:line` of most
others."""
_CODE = re.compile(
    r"\.(py|pyx|go|rs|rb|js|jsx|ts|tsx|mjs|cjs|vue|java|kt|kts|scala|groovy|clj|cs|fs|vb|php|ex"
    r"|exs|erl"
    r"|swift|m|mm|dart|lua|pl|c|h|cc|cpp|cxx|hpp|cu|cuh|sql|sh)$",
    re.I,
)
_LIBRARIES = re.compile(
    r"(^|/)(site-packages|dist-packages|node_modules|vendor|third_party|gems|\.cargo|\.m2|rustc)/"
    r"|/go/pkg/mod/|/usr/(local/)?(lib|go)/|^(internal|node:)",
)
"""Where other people's code is installed; its lines are in nobody's own repository."""
JVM_ROOTS = ("src/main/java/", "src/main/kotlin/", "src/main/scala/", "src/main/groovy/")
"""Maven's standard directory layout (maven.apache.org), which Gradle shares."""


_JVM_ENDINGS = {"java": ".java", "kotlin": ".kt", "scala": ".scala", "groovy": ".groovy"}


@dataclass(frozen=True)
class SourceFrame:
    """One frame: a path as the process knew it, made safe, and a line from 1."""

    path: str
    line: int


@dataclass(frozen=True)
class SourceLines:
    """Lines of a file at a revision. `text` numbers them and marks the one asked for; `link` opens
    it."""

    repository: str
    revision: str
    path: str
    line: int
    text: str
    link: str


def safe_path(path: str) -> str | None:
    """The path relative to a repository's root, or None where it leads elsewhere or is no path."""
    if not path or len(path) > MOST_PATH or not path.isprintable():
        return None
    # Frames of Windows builds hold a drive and backslashes; a repository holds neither.
    without_drive = re.sub(r"^[A-Za-z]:", "", path).replace("\\", "/")
    parts = [part for part in without_drive.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or len(parts) > MOST_SEGMENTS:
        return None
    safe = "/".join(parts)
    return None if SECRET_PATHS.search(safe) else safe


def frames_of(alert: Alert) -> list[SourceFrame]:
    """The frames that the alert's title, summary and labels name, the innermost first, without
    those of libraries."""
    text = "\n".join([alert.title, alert.summary or "", *alert.labels.values()])[:MOST_TEXT]
    # Python alone writes the innermost frame last.
    places = [(frame[1], frame[2]) for frame in _PYTHON.finditer(text)][::-1]
    places += [(frame[1], frame[2]) for frame in _DOTNET.finditer(text)]
    places += [(_jvm_path(frame[1], frame[2]), frame[3]) for frame in _JVM.finditer(text)]
    # `file:line` is the loosest form, so try it only where no known traceback was found.
    if not places:
        places = [(place[1], place[2]) for place in _PLACE.finditer(text)]
    frames: dict[SourceFrame, None] = {}
    for frame_path, line in places:
        if _LIBRARIES.search(frame_path):
            continue
        path = safe_path(frame_path)
        if path and _CODE.search(path) and int(line) > 0:
            frames[SourceFrame(path, int(line))] = None
    return list(frames)[:MOST_FRAMES]


def candidates(path: str, paths: Collection[str]) -> list[str]:
    """Where in a repository the file may lie, the likeliest first: among the paths known, else the
    path's own ends."""
    likely = [k for k in paths if same_file(path, k)]
    parts = path.split("/")
    # A process knows its path inside the container, so drop leading folders one by one.
    ends = ["/".join(parts[n:]) for n in range(max(0, len(parts) - MOST_PROBES), len(parts))]
    if path.endswith((".java", ".kt", ".scala", ".groovy")) and not path.startswith("src/"):
        ends = [root + path for root in JVM_ROOTS if _root_fits(root, path)] + ends
    return list(dict.fromkeys([*sorted(likely, key=len, reverse=True), *ends]))[:MOST_PROBES]


def same_file(frame: str, path: str) -> bool:
    """Whether a frame's path and a repository's path can be one file: one ends in the other."""
    return frame == path or frame.endswith("/" + path) or path.endswith("/" + frame)


def touched(
    frames: Iterable[SourceFrame], files_by_change: Mapping[str, Collection[str]]
) -> dict[str, list[str]]:
    """By frame (`path:line`) the changes that touch its file."""
    changes_by_frame: dict[str, list[str]] = {}
    for frame in frames:
        ids = []
        for change, files in files_by_change.items():
            if any(same_file(frame.path, file) for file in files):
                ids.append(change)
        if ids:
            changes_by_frame[f"{frame.path}:{frame.line}"] = ids
    return changes_by_frame


def excerpt(content: bytes, line: int) -> str:
    """The lines around `line`, numbered; a line beyond the file's end is said."""
    # A NUL byte near the beginning is how Git, too, tells binary from text.
    if b"\x00" in content[:8192]:
        return "(the file is not text)"
    lines = content[:LARGEST_FILE].decode("utf-8", "replace").splitlines()
    if not 1 <= line <= len(lines):
        return f"(the file has {len(lines)} lines at this revision, so none of number {line})"
    first, last = max(1, line - AROUND), min(len(lines), line + AROUND)
    shown = []
    for number in range(first, last + 1):
        characters = lines[number - 1].replace("\t", "    ")
        # Foreign text: control characters could rewrite what a terminal shows.
        text = "".join(c if c.isprintable() else " " for c in characters)
        mark = ">" if number == line else " "
        shown.append(f"{mark}{number:>6}  {text[:LINE_LENGTH]}".rstrip())
    return "\n".join(shown)


def _jvm_path(qualified: str, file: str) -> str:
    # The last part of the qualified name is the class; the rest is the folder.
    package = qualified.rpartition(".")[0]
    return "/".join([*package.split("."), file]) if package else file


def _root_fits(root: str, path: str) -> bool:
    language = root.split("/")[2]
    return path.endswith(_JVM_ENDINGS[language])
