"""An answer as one page that needs no server: to attach to a ticket, or to open next year."""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import version
from pathlib import Path

from markupsafe import Markup

from faultline.bot.store.store import StoredInvestigation
from faultline.bot.web.investigation_view import build_view
from faultline.bot.web.rendering import STATIC, template_environment

STYLES = ("app.css", "pictures.css")
NOTHING_ELSE = "default-src 'none'; base-uri 'none'; form-action 'none'"


def answer_file(stored: StoredInvestigation, folder: Path) -> str:
    """The page of an investigation that was answered. It holds no script and loads nothing."""
    style = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in STYLES)
    # The policy allows this style alone, by its hash.
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    view = build_view(stored, (), folder)
    answer = view.answer
    cited = (
        {evidence_id for finding in answer.findings.values() for evidence_id in finding.evidence}
        if answer
        else set()
    )
    return (
        template_environment()
        .get_template("answer_file.html")
        .render(
            view=view,
            # Many findings rest on the same queries: each is shown once.
            cited=[item for evidence_id, item in answer.evidence.items() if evidence_id in cited]
            if answer
            else (),
            style=Markup(style),  # noqa: S704  our own style sheets
            policy=f"{NOTHING_ELSE}; style-src 'sha256-{digest}'",
            version=version("faultline-bot"),
            takes_requests=False,
            visitor=None,
        )
    )
