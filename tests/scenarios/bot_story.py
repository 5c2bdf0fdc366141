"""A running bot with Slack and PagerDuty on loopback, for stories told over real HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx

from faultline.bot.store.connections import connect
from faultline.bot.store.store import Store
from faultline.loopback.bot_process import BotProcess, incident_event, signed_webhook
from faultline.loopback.pagerduty import LoopbackPagerDuty
from faultline.loopback.server import serve_in_thread
from faultline.loopback.slack import LoopbackSlack, SlackedMessage
from tests.databases import make_tables

SECRET = "webhook-secret"
CHANNEL = "C0INCIDENTS"


@dataclass
class Story:
    """The bot and the vendors around it."""

    bot: BotProcess
    slack: LoopbackSlack
    pagerduty: LoopbackPagerDuty
    store: Store

    def page_out(
        self, incident: str, title: str = "checkout p99 latency above 800 ms"
    ) -> httpx.Response:
        """An incident opens in PagerDuty, and its webhook reaches the bot."""
        self.pagerduty.open_incident(incident, title, "checkout")
        return self.send(incident, title)

    def send(self, incident: str, title: str, *, delivery: str | None = None) -> httpx.Response:
        """The webhook alone; tried again as PagerDuty does while the bot is away."""
        event = incident_event(
            incident=incident,
            title=title,
            service="checkout",
            at=datetime.now(UTC),
            base="https://acme.pagerduty.com",
        )
        body, headers = signed_webhook(SECRET, event, delivery=delivery or incident)
        deadline = time.monotonic() + 60
        while True:
            try:
                answer = httpx.post(
                    f"{self.bot.url}/webhooks/pagerduty", content=body, headers=headers, timeout=10
                )
                if answer.status_code < 500:
                    return answer
            except httpx.TransportError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def answers(self) -> list[SlackedMessage]:
        """Slack messages of the bot that hold a final answer."""
        return [m for m in self.slack.posts if len(m.versions) > 1 or "Investigating" not in m.text]

    def wait_for(
        self, condition: Callable[[], bool], *, within_s: float = 180.0, what: str = "condition"
    ) -> None:
        """Wait until it holds."""
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
            time.sleep(0.05)


@contextmanager
def bot_story(
    directory: Path,
    case: Path | None,
    database_url: str,
    *,
    log: Path | None = None,
    serve: tuple[str, ...] = (),
    before: Sequence[SlackedMessage] = (),
    from_nothing: bool = False,
    environ: Mapping[str, str] | None = None,
    **more: str,
) -> Iterator[Story]:
    """Start the vendors and the bot; stop all of them at the end. `before` stands in Slack
    already.

    Without a recorded `case` the sources are those that `environ` or faultline.toml in the
    directory name. On SQLite the bot finds its tables made, unless it is to begin `from_nothing`.
    """
    slack = LoopbackSlack(channels={CHANNEL: "incidents"})
    slack.messages.extend(before)
    pagerduty = LoopbackPagerDuty()
    slack_url, stop_slack = serve_in_thread(slack.app)
    pagerduty_url, stop_pagerduty = serve_in_thread(pagerduty.app)
    settings = {
        "FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS": SECRET,
        "FAULTLINE_PAGERDUTY__API_TOKEN": "pagerduty-token",
        "FAULTLINE_PAGERDUTY__FROM_EMAIL": "faultline@example.com",
        "FAULTLINE_PAGERDUTY__API_URL": pagerduty_url,
        "FAULTLINE_SLACK__BOT_TOKEN": "xoxb-test",
        "FAULTLINE_SLACK__SIGNING_SECRETS": "slack-secret",
        "FAULTLINE_SLACK__CHANNEL": CHANNEL,
        "FAULTLINE_SLACK__API_URL": f"{slack_url}/api",
        "FAULTLINE_ALERTS__GROUPS": "off",  # in most stories each alert is an incident of its own
        # Looking for work costs, and many stories run side by side.
        "FAULTLINE_WORKER__POLLING_INTERVAL_S": "1",
        "FAULTLINE_WORKER__GRACE_S": "2",
        "FAULTLINE_WORKER__NICENESS": "0",  # the tests themselves keep the machine busy
        **(environ or {}),
        **more,
    }
    if case is not None:
        settings["FAULTLINE_RECORDED__CASE"] = str(case)
    state = directory / "state"
    if database_url.startswith("postgresql"):
        settings["FAULTLINE_STORE__DATABASE"] = database_url
    elif not from_nothing and not state.exists():
        make_tables(state)
    bot = BotProcess(directory, settings, serve=serve, log=log, preloaded=True)
    bot.start()
    url = (
        database_url
        if database_url.startswith("postgresql")
        else f"sqlite:///{state}/faultline.sqlite"
    )
    engine = connect(url)
    try:
        yield Story(bot, slack, pagerduty, Store(engine))
    finally:
        bot.stop()
        engine.dispose()
        stop_slack()
        stop_pagerduty()
