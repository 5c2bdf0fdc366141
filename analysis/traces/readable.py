"""Names out of a job's files, made fit to stand in a sentence."""

from __future__ import annotations

MAX_NAME = 80


def readable(name: str, limit: int = MAX_NAME) -> str:
    """Printable, on one line, without the characters that chat programs take for markup, at most `limit` long.

    Kernel, function and file names come from whoever ran the job; "<!channel>" and ANSI escapes must stay inert.
    """
    clean = "".join(c if c.isprintable() and c not in "`<>" else " " for c in name[: limit + 1])
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
