"""What each connector sends to its vendor's stand-in and makes of the replies, kept as text: every
request, row, item and gap, and what changes where values of the replies are missing, on a bound or
of another type.
"""

from __future__ import annotations

import difflib
import hashlib
from pathlib import Path

import pytest

from faultline.connectors.registry import CONNECTORS
from faultline.connectors.shared.transport import rate_limiter
from faultline.connectors.shared.transport.rate_limiter import FairSemaphore, TokenBucket
from tests.connectors.collected_text import collected_text
from tests.connectors.damaged_replies import KINDS, damage
from tests.connectors.local_http import LocalServer
from tests.connectors.test_read_only import OVER_HTTP, aws_credentials, settings_for, stand_in
from tests.kept import assert_kept

FOLDER = Path(__file__).parent / "collections"
VENDORS = [name for name in OVER_HTTP if name != "recorded"]
DAMAGED = [(name, kind) for name in VENDORS for kind in KINDS]
PATIENT_S = 300.0
MOST_LINES, LONGEST_LINE = 24, 240
"""Of a difference are written out; a digest holds the rest."""


def brought(name: str, folder: Path, kind: str | None = None) -> str:
    """What the connector did, line by line."""
    with LocalServer() as server:
        stand_in(name).serve(server)
        if kind is not None:
            damage(server, kind, 1)
        settings = settings_for(server, folder, name)
        patient = getattr(settings, name).model_copy(update={"deadline_s": PATIENT_S})
        connector = CONNECTORS[name].configured(settings.model_copy(update={name: patient}))
        return collected_text(connector, server, folder / (kind or "whole"))


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of requests at once, whichever ends first may decide what is brought; and nothing here needs
    a pause between them."""
    monkeypatch.setattr(rate_limiter, "FairSemaphore", lambda _: FairSemaphore(1))
    monkeypatch.setattr(rate_limiter, "TokenBucket", lambda *_: TokenBucket(1e6, 1e6))
    aws_credentials(monkeypatch)


def difference(before: str, after: str) -> str:
    lines = []
    for line in difflib.ndiff(before.splitlines(), after.splitlines()):
        if line.startswith(("- ", "+ ")):
            lines.append(line)
    shown = [line[:LONGEST_LINE] for line in lines[:MOST_LINES]]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    return "\n".join([*shown, f"{len(lines)} lines: {digest}", ""])


@pytest.mark.parametrize("name", VENDORS)
def test_a_connector_sends_and_brings_what_is_kept(name: str, tmp_path: Path) -> None:
    assert_kept(FOLDER / f"{name}.txt", brought(name, tmp_path))


@pytest.mark.parametrize(("name", "kind"), DAMAGED)
def test_damaged_replies_change_what_is_brought_as_it_is_kept(
    name: str, kind: str, tmp_path: Path
) -> None:
    text = brought(name, tmp_path, kind)
    assert "internal error" not in text
    whole = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert_kept(FOLDER / f"{name}.{kind}.txt", difference(whole, text))
