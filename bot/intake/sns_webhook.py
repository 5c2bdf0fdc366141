"""SNS over HTTPS: notifications of alarms in, subscriptions of our own topics confirmed."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from datetime import datetime

from bot.intake.accepting import Ignored
from bot.intake.cloudwatch_alarms import read_alarm
from bot.intake.request_body import Refused
from bot.intake.sns_signature import SOURCE, Fetch, SnsMessage, SnsVerifier, fetch_https
from bot.settings import Settings
from bot.store.store import Arrival, Delivery, ReplyTo

RAW = "x-amz-sns-rawdelivery"
"""The header of a subscription with raw message delivery, whose messages carry no signature."""

log = logging.getLogger("faultline.intake")


class SnsWebhook:
    """One for the process: it keeps the certificates it has seen. `fetch` gets them, and confirms
    subscriptions."""

    def __init__(self, settings: Settings, fetch: Fetch = fetch_https) -> None:
        self._settings = settings
        self._verifier = SnsVerifier(settings.aws.sns_topics, fetch)

    async def read(
        self, body: bytes, headers: Mapping[str, str], *, now: datetime
    ) -> Arrival | Ignored:
        """What to do with a delivery. Raises BadSignature, NotAccepted, Refused."""
        if headers.get(RAW, "").lower() == "true":
            raise Refused(
                400, "raw message delivery carries no signature: turn it off for this subscription"
            )
        message = await self._verifier.verify(body, now=now)
        if message.type == "SubscriptionConfirmation":
            await self._verifier.confirm(message)
            log.info("sns: the subscription to %s is confirmed", message.topic)
            return Ignored("the subscription is confirmed")
        if message.type == "UnsubscribeConfirmation":
            log.warning(
                "sns: the subscription to %s has ended: its alarms come no more", message.topic
            )
            return Ignored("the subscription has ended")
        return read_notification(message, self._settings, now=now)


def read_notification(
    message: SnsMessage, settings: Settings, *, now: datetime
) -> Arrival | Ignored:
    """The alarm in a message whose signature holds."""
    alert = read_alarm(message.text, message.region, settings, now=now)
    if isinstance(alert, Ignored):
        return alert
    identity = message.id or hashlib.sha256(message.text.encode("utf-8", "replace")).hexdigest()
    return Arrival(
        alert, Delivery(SOURCE, f"{message.topic} {identity}", alert.started_at), ReplyTo()
    )
