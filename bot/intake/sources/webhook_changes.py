"""The generic webhook's changes: deployments, flags and pushed configuration that any system posts.

They are kept with those of `POST /changes` and become evidence of later investigations. One with a
known id replaces the earlier one, so that a delivery which comes twice is one change.
"""

from __future__ import annotations

from datetime import datetime
from typing import get_args

from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.alert_source import ChangeBatch
from faultline.bot.intake.payload_fields import as_url, digest_of, plain, single_line
from faultline.bot.intake.reported_changes import AHEAD, ChangeKind
from faultline.bot.intake.request_body import Refused
from faultline.bot.intake.service_names import catalogued
from faultline.bot.intake.sources.webhook_body import MappedItem, mapped_items, refused
from faultline.bot.settings import Settings
from faultline.bot.settings.webhook import WebhookSettings
from faultline.bot.store.changes import (
    LONGEST_FILES,
    LONGEST_ID,
    LONGEST_TEXT,
    ReportedChange,
)

KINDS = get_args(ChangeKind)
MOST_CHANGES = 100
MOST_FILES = 2_000


def read_changes(
    body: bytes,
    settings: Settings,
    webhook_settings: WebhookSettings,
    *,
    sender: str,
    now: datetime,
) -> ChangeBatch | Ignored:
    """The changes of a body, in its order. Raises Refused with 400 or 413."""
    items = mapped_items(body, webhook_settings)
    if len(items) > MOST_CHANGES:
        raise Refused(413, f"more than {MOST_CHANGES} changes in one body")
    if not items:
        return Ignored("no change counts")
    return ChangeBatch([_change(mapped_item, settings, sender, now) for mapped_item in items])


def _change(item: MappedItem, settings: Settings, sender: str, now: datetime) -> ReportedChange:
    service = catalogued(settings, *item.names("service"))
    title = plain(item.line("title"), LONGEST_TEXT)
    identity = item.line("id")
    for field, content in (("service", service), ("title", title), ("id", identity)):
        if not content:
            raise refused(item.webhook_settings, field, "finds nothing")
    at = item.time("starts_at") or now
    if at > now + AHEAD:
        raise refused(item.webhook_settings, "starts_at", "is in the future")
    environment = item.line("environment")
    line = (item.line("kind") or KINDS[0]).casefold()
    if line not in KINDS:
        raise refused(item.webhook_settings, "kind", f"is none of {', '.join(KINDS)}")
    return ReportedChange(
        id=_id(sender, identity or ""),
        at=at,
        service=service or "",
        kind=line,
        title=title,
        author=item.line("author") or "",
        link=as_url(item.get("url")),
        files=_files(item),
        place={"environment": environment} if environment else {},
    )


def _id(sender: str, identity: str) -> str:
    """Equal ids of two senders are two changes."""
    # The stored id has a bound. A digest is the same each time, so a repeat is still recognised.
    whole = f"{sender or 'webhook'}/{identity}"
    return whole if len(whole) <= LONGEST_ID else digest_of(sender, identity)


def _files(item: MappedItem) -> str:
    files = item.get("files")
    paths = files[:MOST_FILES] if isinstance(files, list) else []
    lines = [single_line(path) for path in paths]
    return "\n".join(line for line in lines if line)[:LONGEST_FILES]
