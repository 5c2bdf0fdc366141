"""The exports there are: by the name that `faultline export --as` takes, with the file that the
pages offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from faultline.bot.answer.exports.answered import ExportedAnswer, read_answered
from faultline.bot.answer.exports.as_json import document
from faultline.bot.answer.exports.coding_agent import hand_off
from faultline.bot.answer.exports.postmortem import postmortem
from faultline.bot.answer.exports.status_update import as_markdown


@dataclass(frozen=True)
class Format:
    """One export. `file` is its name on the pages and when downloaded."""

    file: str
    media_type: str
    title: str
    write: Callable[[ExportedAnswer], str]


FORMATS: Mapping[str, Format] = {
    "postmortem": Format("postmortem.md", "text/markdown", "Postmortem draft", postmortem),
    "status": Format("status.md", "text/markdown", "Status update", as_markdown),
    "json": Format("investigation.json", "application/json", "JSON", document),
    "agent": Format("agent.md", "text/markdown", "Task for a coding agent", hand_off),
}


def export(folder: Path, name: str) -> bytes:
    """One export of a case folder (blocking). Raises EvidenceError when the case cannot be read."""
    return FORMATS[name].write(read_answered(folder)).encode("utf-8", "replace")
