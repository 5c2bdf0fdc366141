"""Names out of a job's files, made fit to stand in a sentence."""

from __future__ import annotations

from zlib import crc32

MAX_NAME = 80
_INERT = str.maketrans({"<": "‹", ">": "›", "`": " "})


def readable(name: str, limit: int = MAX_NAME) -> str:
    """Printable, on one line, without the characters that chat programs take for markup, at most
    `limit` long.

    Kernel, function and file names come from whoever ran the job; "<!channel>" and ANSI escapes
    must stay inert. Brackets of templates and of `<listcomp>` become ‹ and ›, which are no markup.
    """
    clean = name[: limit + 1].translate(_INERT)
    clean = "".join(c if c.isprintable() else " " for c in clean)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def distinct_name(name: str, limit: int) -> str:
    """At most `limit` long; where it is cut, with a checksum of the whole: names of kernels made
    from templates are often alike for hundreds of characters. Equal names are cut alike on every
    rank."""
    if len(name) <= limit:
        return name
    return f"{name[: limit - 9]}~{crc32(name.encode('utf-8', 'backslashreplace')):08x}"
