"""The page of `--html`: one file without links to anything, read offline, under a policy that runs
only its own code.

The policy names the hashes of the page's style and scripts; nothing is loaded, and no text of a
trace can become code.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from faultline.trace_report.page_model import ReportPage

HERE = Path(__file__).parent
WEB = HERE.parent / "bot" / "web" / "static"


def render(page: ReportPage) -> str:
    """The page as HTML."""
    style = "\n".join(
        _text(p)
        for p in (WEB / "app.css", WEB / "vendor/uplot-1.6.32.min.css", HERE / "static/page.css")
    )
    uplot, script = _text(WEB / "vendor/uplot-1.6.32.min.js"), _text(HERE / "static/page.js")
    policy = (
        f"default-src 'none'; script-src {_hash(uplot)} {_hash(script)}; style-src {_hash(style)}; "
        "img-src 'none'; connect-src 'none'; form-action 'none'; base-uri 'none'"
    )
    template = _environment().get_template("page.html")
    mark = _text(WEB / "mark.svg")
    return template.render(
        page=page, style=style, uplot=uplot, script=script, policy=policy, mark=mark
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["coded"] = _coded
    return environment


def _coded(text: str) -> Markup:
    """What stands between backticks as code; everything else is escaped."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        # A backtick without a partner: take none of them as code.
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts)
    )


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
