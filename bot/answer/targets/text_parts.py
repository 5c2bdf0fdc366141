"""The parts of an answer in plain text, for vendors whose messages have a title or markup."""

from __future__ import annotations

from dataclasses import dataclass, replace

from faultline.bot.answer.writer.markdown_text import shown

LONGEST_TITLE = 240
CUT = "…"
LINK = "Details: "
"""How the last line of an answer begins, before the address of its page."""
NO_REFERENCE = "\u2060"
"""A word joiner, which is not seen."""


@dataclass(frozen=True)
class TextParts:
    """The title, the lines below it, and the answer's page."""

    title: str
    lines: tuple[str, ...]
    page: str

    @classmethod
    def of(cls, text: str) -> TextParts:
        """Of an answer in plain text."""
        title, *lines = text.split("\n")
        page = lines.pop().removeprefix(LINK) if lines and lines[-1].startswith(LINK) else ""
        if len(title) > LONGEST_TITLE:
            title = title[: LONGEST_TITLE - 1] + "…"
        return cls(title, tuple(lines), page)

    def markdown_within(self, limit: int) -> str:
        """As Markdown of at most `limit` characters: without the last lines, where it is longer."""
        markdown, lines = self.markdown, self.lines
        # Escapes make Markdown longer than its text, so measure after each cut.
        while len(markdown) > limit and lines:
            lines = lines[:-1]
            markdown = replace(self, lines=(*lines, CUT)).markdown
        return markdown[:limit]

    @property
    def markdown(self) -> str:
        """As Markdown in which foreign text stays text: no markup, mention, reference or quick
        action."""
        markdown_lines: list[str] = []
        for line in self.lines:
            if line.startswith("- "):
                markdown_lines.append(f"- {_inert(line[2:])}")
            elif line.endswith(":"):
                markdown_lines += ["", f"**{_inert(line)}**", ""]
            else:
                markdown_lines += ["", _inert(line)]
        if self.page:
            markdown_lines += ["", f"[The whole answer, with its evidence]({self.page})"]
        return "\n".join(markdown_lines).strip()


def _inert(line: str) -> str:
    # No mention is left in it, but `#12` would still refer to an issue.
    escaped = shown(line).replace("#", "#" + NO_REFERENCE)
    # GitLab does what a line says that begins with a slash.
    return NO_REFERENCE + escaped if escaped.startswith("/") else escaped
