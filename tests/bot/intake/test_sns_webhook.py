"""SNS messages: what is signed for a topic of ours is taken, whatever else is not, and nothing else
is ever fetched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from faultline.bot.intake.accepting import Ignored, NotAccepted
from faultline.bot.intake.signatures import BadSignature, Refused
from faultline.bot.intake.sources.cloudwatch import SnsWebhook
from faultline.bot.intake.sources.sns_messages import (
    FETCHES_PER_MINUTE,
    MOST_FETCHES,
    certificate_names,
)
from faultline.bot.settings import Settings
from faultline.bot.store.store import Arrival
from tests.bot.intake.sns_sender import (
    CERT_URL,
    PEM,
    REGION,
    TOPIC,
    SnsSender,
    alarm,
    certificate,
    envelope,
    signed,
)
from tests.bot.intake.test_pagerduty_webhook import JSON
from tests.connectors.local_http import LocalServer

SETTINGS = Settings.model_validate({"aws": {"sns_topics": [TOPIC]}, "services": {"checkout": {}}})


@pytest.fixture
def sender() -> Iterator[SnsSender]:
    """A topic that is ours."""
    with LocalServer() as server:
        yield SnsSender(server)


def read(
    sender: SnsSender, *bodies: bytes, headers: dict[str, str] | None = None
) -> list[Arrival | Ignored]:
    """What one webhook makes of deliveries."""

    async def run() -> list[Arrival | Ignored]:
        webhook = SnsWebhook(SETTINGS, sender.fetch)
        return [await webhook.read(body, headers or {}, now=datetime.now(UTC)) for body in bodies]

    return asyncio.run(run())


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("subject", [None, "ALARM: checkout"])
def test_a_signed_alarm_is_an_alert(sender: SnsSender, version: str, subject: str | None) -> None:
    more = {"SignatureVersion": version} | ({"Subject": subject} if subject else {})
    (found,) = read(sender, signed(envelope(alarm(), **more)))
    assert isinstance(found, Arrival)
    assert (found.alert.title, found.alert.status, found.alert.service) == (
        "checkout-latency",
        "firing",
        "checkout",
    )
    assert found.delivery is not None
    assert "22b80b92" in found.delivery.id


def test_the_certificate_is_fetched_once(sender: SnsSender) -> None:
    read(sender, *[signed(envelope(alarm(), MessageId=str(n))) for n in range(3)])
    assert sender.fetched == [CERT_URL]


def test_a_message_delivered_twice_is_one_delivery(sender: SnsSender) -> None:
    body = signed(envelope(alarm()))
    first, second = read(sender, body, body)
    assert isinstance(first, Arrival)
    assert isinstance(second, Arrival)
    assert first.delivery == second.delivery


def changed(**more: Any) -> bytes:
    """A genuine message, changed after it was signed."""
    return json.dumps(json.loads(signed(envelope(alarm()))) | more).encode()


def hours_from_now(hours: int) -> str:
    """As SNS stamps a message."""
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


OTHER_TOPIC = f"arn:aws:sns:{REGION}:999999999999:alarms"
HOSTS = (
    f"http://sns.{REGION}.amazonaws.com{PEM}",
    f"https://sns.{REGION}.amazonaws.com.evil.example{PEM}",
    f"https://sns.{REGION}.amazonaws.com:444{PEM}",
    f"https://x@sns.{REGION}.amazonaws.com{PEM}",
    f"https://evil.example/sns.{REGION}.amazonaws.com{PEM}",
    f"https://sns.{REGION}.amazonaws.com\n.evil.example{PEM}",
    f"https://sns.us-east-1.amazonaws.com{PEM}",
    f"https://sns.{REGION}.amazonaws.com.cn{PEM}",
    f"https://s3.{REGION}.amazonaws.com{PEM}",
    f"https://sns.{REGION}.amazonaws.com/mine.pem",
    f"https://sns.{REGION}.amazonaws.com/?Action=GetThing",
    f"https://sns.{REGION}.amazonaws.com{PEM}?x=1",
    f"{CERT_URL}#1",
    f"https://sns.{REGION}.amazonaws.com/SimpleNotificationService-0.pem",
    f"https://sns.{REGION}.amazonaws.com{PEM.upper()}",
    "https://[::1",
    "",
)


@pytest.mark.parametrize("url", HOSTS)
def test_no_other_address_is_asked_for_a_certificate(sender: SnsSender, url: str) -> None:
    with pytest.raises(BadSignature):
        read(sender, signed(envelope(alarm(), SigningCertURL=url)))
    assert sender.fetched == []


@pytest.mark.parametrize(
    "body",
    [
        lambda: b"",
        lambda: b"[]",
        lambda: b"\xff",
        lambda: signed(envelope(alarm(), TopicArn=OTHER_TOPIC)),
        lambda: signed(envelope(alarm(), TopicArn=TOPIC + "x")),
        lambda: signed(envelope(alarm(), Timestamp="2012-05-02T00:54:06.655Z")),
        lambda: signed(envelope(alarm(), Timestamp="tomorrow")),
        lambda: signed(
            envelope(alarm(), Timestamp=(datetime.now(UTC) + timedelta(hours=9)).isoformat())
        ),
        lambda: signed(
            envelope(alarm(), Timestamp=(datetime.now(UTC) - timedelta(hours=9)).isoformat())
        ),
    ],
)
def test_what_is_not_of_our_topics_or_of_now_is_refused_before_anything_is_fetched(
    sender: SnsSender, body: Callable[[], bytes]
) -> None:
    with pytest.raises(BadSignature):
        read(sender, body())
    assert sender.fetched == []


@pytest.mark.parametrize(
    "body",
    [
        lambda: changed(Message=json.dumps(alarm(name="another"))),
        lambda: changed(MessageId="another"),
        lambda: changed(Subject="added"),
        lambda: changed(Signature=""),
        lambda: changed(Signature="FAKE"),
        lambda: changed(Signature="not base64!"),
        lambda: changed(Signature=None),
        lambda: changed(SignatureVersion="1"),
        lambda: changed(SignatureVersion="3"),
        lambda: changed(Timestamp=(datetime.now(UTC) - timedelta(minutes=1)).isoformat()),
        lambda: signed(envelope(alarm()), key=1),
        lambda: json.dumps(envelope(alarm())).encode(),
    ],
)
def test_a_forged_message_is_refused(sender: SnsSender, body: Callable[[], bytes]) -> None:
    with pytest.raises(BadSignature):
        read(sender, body())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"names": ("evil.example",)}, "not SNS's"),
        ({"names": ("sns.amazonaws.com.evil.example",)}, "not SNS's"),
        ({"names": ("sns-signing.us-east-2.amazonaws.com",)}, "not SNS's"),
        ({"end": timedelta(hours=-1)}, "not valid now"),
        ({"start": timedelta(hours=1)}, "not valid now"),
        ({"bits": 1024}, "key"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "no certificate"),
        (b"<html>", "no certificate"),
    ],
)
def test_a_certificate_that_is_not_snss_or_not_of_now_is_refused(
    sender: SnsSender, changes: dict[str, Any] | bytes, reason: str
) -> None:
    sender.hold(changes if isinstance(changes, bytes) else certificate(**changes))
    with pytest.raises(BadSignature) as refused:
        read(sender, signed(envelope(alarm())))
    assert reason in refused.value.reason


def test_names_of_signing_certificates_by_region() -> None:
    assert "sns.amazonaws.com" in certificate_names("eu-west-1")
    assert "sns-signing.af-south-1.amazonaws.com" in certificate_names("af-south-1")
    assert certificate_names("cn-north-1") == {"sns-cn-north-1.amazonaws.com.cn"}
    assert certificate_names("us-gov-east-1") == {"sns-us-gov-west-1.amazonaws.com"}


def test_a_certificate_that_cannot_be_had_is_asked_for_once_and_the_message_comes_again(
    sender: SnsSender,
) -> None:
    sender.hold(b"", status=503)
    webhook = SnsWebhook(SETTINGS, sender.fetch)

    async def twice() -> None:
        for _ in range(2):
            with pytest.raises(NotAccepted):
                await webhook.read(signed(envelope(alarm())), {}, now=datetime.now(UTC))

    asyncio.run(twice())
    assert sender.fetched == [CERT_URL]


def invented(number: int) -> str:
    """The address of a certificate that SNS does not have."""
    return CERT_URL.replace(PEM, f"/SimpleNotificationService-{number:032x}.pem")


class SilentForStrangers:
    """SNS's host: serves its own certificate, and takes its time over every other."""

    def __init__(self, sender: SnsSender) -> None:
        self.sender = sender
        self.asked: list[str] = []
        self.most_at_once = self.waiting = 0
        self.go_on = asyncio.Event()

    async def fetch(self, url: str) -> bytes:
        self.asked.append(url)
        if url == CERT_URL:
            return await self.sender.fetch(url)
        self.waiting += 1
        self.most_at_once = max(self.most_at_once, self.waiting)
        try:
            await self.go_on.wait()
        finally:
            self.waiting -= 1
        raise OSError("403")


async def from_strangers(webhook: SnsWebhook, count: int) -> list[asyncio.Task[object]]:
    """Messages with invented certificates, all of which are under way."""
    bodies = [signed(envelope(alarm(), SigningCertURL=invented(n))) for n in range(count)]
    tasks: list[asyncio.Task[object]] = [
        asyncio.create_task(webhook.read(body, {}, now=datetime.now(UTC))) for body in bodies
    ]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


@pytest.mark.parametrize("known", [True, False])
def test_invented_certificates_do_not_hold_up_a_genuine_message(
    sender: SnsSender, *, known: bool
) -> None:
    async def run() -> None:
        host = SilentForStrangers(sender)
        webhook = SnsWebhook(SETTINGS, host.fetch)
        genuine = signed(envelope(alarm()))
        strangers = 50 if known else MOST_FETCHES - 1
        if known:
            await webhook.read(genuine, {}, now=datetime.now(UTC))
        tasks = await from_strangers(webhook, strangers)
        async with asyncio.timeout(2):
            assert await webhook.read(genuine, {}, now=datetime.now(UTC))
        assert host.most_at_once == min(strangers, MOST_FETCHES)
        host.go_on.set()
        refused = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, NotAccepted) for one in refused)

    asyncio.run(run())


def test_invented_certificates_are_fetched_a_bounded_number_of_times_a_minute(
    sender: SnsSender,
) -> None:
    async def run() -> None:
        host = SilentForStrangers(sender)
        host.go_on.set()
        webhook = SnsWebhook(SETTINGS, host.fetch)
        for n in range(FETCHES_PER_MINUTE + 20):
            body = signed(envelope(alarm(), SigningCertURL=invented(n)))
            with pytest.raises(NotAccepted):
                await webhook.read(body, {}, now=datetime.now(UTC))
        assert len(host.asked) == FETCHES_PER_MINUTE

    asyncio.run(run())


def test_one_certificate_is_fetched_once_for_all_who_wait_for_it(sender: SnsSender) -> None:
    async def run() -> None:
        webhook = SnsWebhook(SETTINGS, sender.fetch)
        bodies = [signed(envelope(alarm())) for _ in range(10)]
        read_all = [webhook.read(body, {}, now=datetime.now(UTC)) for body in bodies]
        gone = asyncio.create_task(webhook.read(bodies[0], {}, now=datetime.now(UTC)))
        await asyncio.sleep(0)
        # Whoever asked first may hang up: the others still get what was asked for.
        gone.cancel()
        assert len(await asyncio.gather(*read_all)) == 10
        assert sender.fetched == [CERT_URL]

    asyncio.run(run())


def test_a_subscription_of_our_topic_is_confirmed(sender: SnsSender) -> None:
    (found,) = read(
        sender, signed(envelope("You have chosen to subscribe", kind="SubscriptionConfirmation"))
    )
    assert isinstance(found, Ignored)
    assert "confirmed" in found.reason
    asked = sender.server.asked[-1]
    assert (asked.method, asked.query["Action"], asked.query["Token"]) == (
        "GET",
        ["ConfirmSubscription"],
        ["2336412f37"],
    )


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/?Action=ConfirmSubscription",
        f"https://sns.{REGION}.amazonaws.com/?Action=DeleteTopic&TopicArn={TOPIC}",
        f"https://sns.{REGION}.amazonaws.com/"
        f"?Action=ConfirmSubscription&TopicArn={OTHER_TOPIC}&Token=1",
        f"http://sns.{REGION}.amazonaws.com/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=1",
        "",
    ],
)
def test_even_a_signed_message_makes_us_visit_no_other_address(sender: SnsSender, url: str) -> None:
    with pytest.raises(BadSignature):
        read(sender, signed(envelope("x", kind="SubscriptionConfirmation", SubscribeURL=url)))
    assert sender.fetched == [CERT_URL]


def test_a_forged_or_foreign_subscription_is_not_confirmed(sender: SnsSender) -> None:
    for body in (
        signed(envelope("x", kind="SubscriptionConfirmation"), key=1),
        signed(envelope("x", kind="SubscriptionConfirmation", TopicArn=OTHER_TOPIC)),
    ):
        with pytest.raises(BadSignature):
            read(sender, body)
    assert not [asked for asked in sender.server.asked if asked.path == "/"]


def test_the_end_of_a_subscription_is_not_undone(sender: SnsSender) -> None:
    (found,) = read(sender, signed(envelope("x", kind="UnsubscribeConfirmation")))
    assert isinstance(found, Ignored)
    assert sender.fetched == [CERT_URL]


def test_raw_delivery_is_explained(sender: SnsSender) -> None:
    with pytest.raises(Refused, match="raw message delivery"):
        read(sender, json.dumps(alarm()).encode(), headers={"x-amz-sns-rawdelivery": "true"})


@pytest.mark.parametrize(
    "kind", ["Notification", "SubscriptionConfirmation", "UnsubscribeConfirmation"]
)
def test_the_documented_examples_are_too_old_and_not_signed(
    shared: Path, sender: SnsSender, kind: str
) -> None:
    sample = json.loads((shared / f"webhooks/aws_sns/{kind}.json").read_text())["body"]
    with pytest.raises(BadSignature):
        read(sender, json.dumps(sample).encode())
    fresh = sample | {
        name: envelope("")[name] for name in ("TopicArn", "Timestamp", "SigningCertURL")
    }
    fresh |= (
        {"SubscribeURL": envelope("", kind="SubscriptionConfirmation")["SubscribeURL"]}
        if "Token" in fresh
        else {}
    )
    (found,) = read(sender, signed(fresh))
    assert isinstance(found, Ignored)


@pytest.mark.parametrize("name", ["alarm", "ministack"])
def test_the_sampled_alarms_are_taken_once_they_are_signed(
    shared: Path, sender: SnsSender, name: str
) -> None:
    sample = json.loads(
        (shared / f"webhooks/cloudwatch/sns_http_notification.{name}.json").read_text()
    )["body"]
    now = {key: envelope("")[key] for key in ("TopicArn", "Timestamp", "SigningCertURL")}
    with pytest.raises(BadSignature):
        read(sender, json.dumps(sample | now).encode())
    (found,) = read(sender, signed(sample | now))
    assert isinstance(found, Arrival)
    assert found.alert.status == "firing"


@examples(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    JSON,
    st.sampled_from(
        ["", "Type", "Message", "Signature", "SigningCertURL", "Timestamp", "SubscribeURL"]
    ),
)
def test_no_body_is_accepted_unsigned_and_none_makes_it_fail(
    sender: SnsSender, value: Any, field: str
) -> None:
    body = json.dumps(envelope(alarm()) | {field: value} if field else value).encode()
    with pytest.raises((BadSignature, NotAccepted)):
        read(sender, body)


def test_the_route_answers_what_a_sender_may_know(
    sender: SnsSender, serve: Callable[..., Any], sqlite_store: Any
) -> None:
    bot = serve(sqlite_store, SETTINGS, fetch_sns=sender.fetch)

    def post(body: bytes) -> httpx.Response:
        answer: httpx.Response = bot.post("/webhooks/sns", body, {"content-type": "text/plain"})
        return answer

    taken = post(signed(envelope(alarm())))
    assert taken.status_code == 202
    assert taken.json()["investigation_id"]
    assert post(signed(envelope("hello"))).json()["outcome"] == "ignored"
    refused = post(changed(MessageId="another"))
    assert (refused.status_code, refused.text) == (401, "signature\n")
    ended = post(signed(envelope(alarm(state="OK"), MessageId="2")))
    assert ended.json()["outcome"] == "resolved"
    sender.hold(b"", status=500)
    later = post(signed(envelope(alarm(), SigningCertURL=CERT_URL.replace("-0123", "-9999"))))
    assert later.status_code == 503


def test_without_topics_the_route_names_the_setting(
    serve: Callable[..., Any], sqlite_store: Any
) -> None:
    answer = serve(sqlite_store).post("/webhooks/sns", b"{}", {})
    assert (answer.status_code, "FAULTLINE_AWS__SNS_TOPICS" in answer.text) == (404, True)
