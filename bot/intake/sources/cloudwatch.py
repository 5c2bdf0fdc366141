"""CloudWatch alarms by SNS over HTTPS: notifications in, our own subscriptions confirmed."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING

from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.alert_source import Receive, RequestContent, WebhookRequest, WebhookSource
from faultline.bot.intake.signatures import Refused
from faultline.bot.intake.sources.cloudwatch_alarms import SNS, SOURCE, read_alarm
from faultline.bot.policy.values import Arrival, Delivery, ReplyTo
from faultline.bot.settings import Settings
from faultline.connectors.vendors.aws import AwsSettings

if TYPE_CHECKING:
    from faultline.bot.intake.sources.sns_messages import Fetch, SnsMessage, SnsVerifier

RAW = "x-amz-sns-rawdelivery"
"""The header of a subscription with raw message delivery, whose messages carry no signature."""

log = logging.getLogger("faultline.intake")


class SnsWebhook:
    """One for the process: it keeps the certificates it has seen. `fetch` gets them, and confirms
    subscriptions."""

    def __init__(self, settings: Settings, fetch: Fetch | None = None) -> None:
        self._settings = settings
        self._fetch = fetch

    async def receive(self, request: WebhookRequest) -> RequestContent:
        """What to do with a request. Raises BadSignature, NotAccepted, Refused."""
        body = await request.read()
        return await self.read(body, request.headers, now=datetime.now(UTC))

    @cached_property
    def _verifier(self) -> SnsVerifier:
        # With the first message: it loads certificates and a client, which no other source needs.
        from faultline.bot.intake.sources.sns_messages import SnsVerifier, fetch_https

        return SnsVerifier(self._settings.aws.sns_topics, self._fetch or fetch_https)

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
            log.warning("sns: the subscription to %s has ended: no more alarms", message.topic)
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
    delivery = Delivery(SNS, f"{message.topic} {identity}", alert.started_at)
    return Arrival(alert, delivery, ReplyTo())


def cloudwatch_source(fetch: Fetch | None = None) -> WebhookSource:
    """The source; without `fetch` it reaches SNS itself."""
    return WebhookSource(
        name=SOURCE,
        endpoint=SNS,
        title="CloudWatch alarms by SNS",
        setup=(
            "A subscription of the alarms' SNS topic, with protocol HTTPS and without raw message "
            "delivery, to"
        ),
        settings=AwsSettings,
        shared_section="aws",
        # The topics prove nothing: SNS's signature does, and it is asked for these topics alone.
        required=("sns_topics",),
        receive=partial(_receive, fetch),
    )


def _receive(fetch: Fetch | None, source: WebhookSource, settings: Settings) -> Receive:
    return SnsWebhook(settings, fetch).receive


ALERT_SOURCE = cloudwatch_source()
