"""Any system's webhook: each revision of the answer as signed JSON.

The signature is that of Standard Webhooks (github.com/standard-webhooks/standard-webhooks). What a
delivery was is kept in the store as its number and a digest: the same content is sent once, and
what is sent again after a lost answer has the same `webhook-id`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from faultline.bot.answer.outcome import Outcome
from faultline.bot.answer.replay import json_of
from faultline.bot.answer.targets.message_target import VendorMessage, call
from faultline.bot.answer.targets.plain_message import answer_text, first_text
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings.reply_targets import AnswerWebhookSettings, signing_key
from faultline.bot.store.store import StoredInvestigation

STARTED, ANSWERED, FAILED, JOINED = (
    "investigation.started",
    "investigation.answered",
    "investigation.failed",
    "investigation.joined",
)
DIGEST = 16


class WebhookDeliveries(VendorMessage):
    """Deliveries to one address."""

    @classmethod
    async def who(cls, settings: AnswerWebhookSettings) -> str:
        """Its host. A check sends nothing, as a receiver may act on what it gets."""
        return f"{urlsplit(settings.url or '').hostname} (nothing was sent)"

    async def announce(self, investigation: StoredInvestigation) -> None:
        """Say that it has begun."""
        text = first_text(investigation, self._page(investigation))
        await self._deliver(investigation, STARTED, text, None)

    async def preview(self, outcome: Outcome) -> None:
        """Nothing: what is delivered is an answer."""

    async def answer(self, outcome: Outcome) -> None:
        """Deliver it, where it is not what was delivered last."""
        investigation, answer = outcome.investigation, outcome.answer
        text = answer_text(outcome, self._page(investigation))
        answer_json = json_of(answer.view(investigation.alert)) if answer else None
        event = ANSWERED if answer else FAILED
        if investigation.status == "joined":
            event = JOINED
        await self._deliver(investigation, event, text, answer_json)

    async def find(self, address: str, key: str, since: datetime) -> str | None:
        """Nothing can be looked for: the receiver drops what it knows."""
        return None

    async def send(self, address: str, key: str, text: str) -> str:
        """Deliver `text`, JSON without its number, and give its digest."""
        digest = _digest(text)
        body = json.dumps(json.loads(text) | {"delivery": _number(key)}, ensure_ascii=False)
        # A lone surrogate from a log line has no form in UTF-8.
        sent = body.encode("utf-8", "replace")
        name, at = f"{key.replace(' ', '-')}-{digest}", str(int(time.time()))
        signed = f"{name}.{at}.".encode() + sent
        proof = hmac.digest(signing_key(self.vendor_settings.secret), signed, "sha256")
        headers = {
            "content-type": "application/json",
            "webhook-id": name,
            "webhook-timestamp": at,
            "webhook-signature": f"v1,{base64.b64encode(proof).decode()}",
        }
        await call(self.vendor_settings.url, headers, "POST", "", content=sent)
        return digest

    async def edit(self, address: str, ref: str, text: str) -> None:
        """Nothing: another delivery follows."""

    async def _deliver(
        self, investigation: StoredInvestigation, kind: str, text: str, answer: Any
    ) -> None:
        body = {
            "type": kind,
            "investigation": investigation.id,
            "page": self._page(investigation),
            "alert": investigation.alert.model_dump(mode="json"),
            "text": text,
            "answer": answer,
        }
        # Sorted, so that equal content has an equal digest.
        payload = json.dumps(body, sort_keys=True)
        first = self._key(investigation)
        posts = await in_store(self._store.posts, investigation.id)
        refs = {_number(key): ref for key, ref in posts.items() if key.split("#")[0] == first}
        number = max(refs, default=0)
        # Skip what was delivered last, and a start that comes after an answer.
        if refs.get(number) == _digest(payload) or (number and kind == STARTED):
            return
        ref = ""
        # Another worker may have delivered other content under this number.
        while ref != _digest(payload):
            number += 1
            key = first if number == 1 else f"{first}#{number}"
            ref, _ = await self._once(investigation, key, self.vendor_settings.url, payload)


def _number(key: str) -> int:
    return int(key.partition("#")[2] or 1)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST]
