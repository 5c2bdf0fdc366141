"""The shop with the bot beside it: vendors on loopback, settings as an operator writes them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from faultline.lab.live.relay import AlertRelay
from faultline.lab.shop.changes import ShopChange
from faultline.lab.shop.layout import CACHE, DATABASE, services_of
from faultline.lab.shop.running import Shop, ShopOptions, running_shop
from faultline.loopback.bot_process import BotProcess
from faultline.loopback.jaeger import LoopbackJaeger
from faultline.loopback.loki import LoopbackLoki
from faultline.loopback.pagerduty import LoopbackPagerDuty
from faultline.loopback.server import serve_in_thread
from faultline.loopback.slack import LoopbackSlack

CHANNEL = "C0INCIDENTS"
SECRET = "live-webhook-secret"  # noqa: S105
INCIDENT_SCRAPES = 16
BASELINE_SCRAPES = 60
"""Windows in scrapes: 4 and 15 minutes at 15 s. Shorter than the bot's defaults of 30 and 120
minutes, so that one shop can play many incidents and each has a calm baseline."""
LONGEST_STEP_S = 15.0
COLLECTING_S = 120
"""How long the bot may collect from each vendor: they share this machine with the shop and the bot,
so each answers more slowly than one with its own machine."""
QUERIES = {
    "pool_usage": "max by (service) (db_pool_connections_in_use / db_pool_connections_max)",
    "redis_keys": "redis_db_keys",
    "queue_length": "redis_stream_length",
    "lock_waits": 'pg_stat_activity_count{state="waiting"}',
    "longest_transaction_s": "pg_stat_activity_max_tx_duration",
}
"""What an operator of this shop would add to the default queries."""


@dataclass(frozen=True)
class WatchedShop:
    """The shop, the bot that watches it, and the vendors between them."""

    shop: Shop
    bot: BotProcess
    relay: AlertRelay
    slack: LoopbackSlack
    pagerduty: LoopbackPagerDuty

    def publish(self, change: ShopChange) -> None:
        """A change event in PagerDuty."""
        self.pagerduty.publish_change(
            change.id, change.title, change.service, change.at, author=change.author
        )


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does, so that everything that was started is stopped."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def watched_shop(
    folder: Path, options: ShopOptions, *, port: int = 0, log: Path | None = None
) -> Iterator[WatchedShop]:
    """Start everything in the folder; stop everything at the end."""
    room = folder / "shop"
    room.mkdir(parents=True, exist_ok=True)
    (room / "logs").mkdir(exist_ok=True)
    slack, pagerduty = LoopbackSlack(channels={CHANNEL: "incidents"}), LoopbackPagerDuty()
    relay = AlertRelay(pagerduty, SECRET)
    with ExitStack() as stack:
        urls = {}
        apps = {
            "slack": slack.app,
            "pagerduty": pagerduty.app,
            "loki": LoopbackLoki(room / "logs").app,
            "jaeger": LoopbackJaeger().app,
            "relay": relay.app,
        }
        for name, app in apps.items():
            urls[name], stop = serve_in_thread(app)
            stack.callback(stop)
        # Only now it is known where the vendors listen.
        connected_options = replace(
            options,
            alerts_to=urls["relay"].removeprefix("http://"),
            collector=urls["jaeger"],
        )
        shop = stack.enter_context(running_shop(room, connected_options))
        names = [service.name for service in shop.services]
        for number, name in enumerate((*names, DATABASE, CACHE), 1):
            pagerduty.services[f"PSHOP{number:03d}"] = name
        path = folder / "bot"
        path.mkdir(exist_ok=True)
        (path / "faultline.toml").write_text(shop_settings(shop.options))
        environ = _environment(shop, urls, path)
        bot = stack.enter_context(BotProcess(path, environ, port=port, log=log))
        shop.guard(bot.pid)
        relay.bot_url = bot.url
        yield WatchedShop(shop, bot, relay, slack, pagerduty)


def shop_settings(options: ShopOptions) -> str:
    """faultline.toml: windows, queries, and the service catalogue."""
    interval_s = options.interval_s
    lines = [
        *(f"{vendor}.deadline_s = {COLLECTING_S}" for vendor in ("prometheus", "loki", "jaeger")),
        f"prometheus.step_s = {min(interval_s, LONGEST_STEP_S):g}",
        "[investigation]",
        f"incident_minutes = {INCIDENT_SCRAPES * interval_s / 60:g}",
        f"baseline_minutes = {BASELINE_SCRAPES * interval_s / 60:g}",
        # An incident is graded by what it shows, not by what the one before it was.
        "memory_days = 0",
    ]
    if not options.small:
        lines.append("[prometheus.queries]")
        lines += [f"{signal} = '{query}'" for signal, query in QUERIES.items()]
    for service in services_of(small=options.small):
        lines.append(f"[services.{service.name}]")
        lines.append(f"depends_on = {list(service.depends_on)!r}")
    return "\n".join([*lines, ""])


def _environment(shop: Shop, urls: dict[str, str], bot_folder: Path) -> dict[str, str]:
    return {
        "FAULTLINE_CONFIG": str(bot_folder / "faultline.toml"),
        "FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS": SECRET,
        "FAULTLINE_PAGERDUTY__API_TOKEN": "live",
        "FAULTLINE_PAGERDUTY__FROM_EMAIL": "faultline@example.com",
        "FAULTLINE_PAGERDUTY__API_URL": urls["pagerduty"],
        "FAULTLINE_SLACK__BOT_TOKEN": "xoxb-live",
        "FAULTLINE_SLACK__SIGNING_SECRETS": SECRET,
        "FAULTLINE_SLACK__CHANNEL": CHANNEL,
        "FAULTLINE_SLACK__API_URL": f"{urls['slack']}/api",
        "FAULTLINE_PROMETHEUS__URL": shop.prometheus.url,
        "FAULTLINE_LOKI__URL": urls["loki"],
        "FAULTLINE_JAEGER__URL": urls["jaeger"],
        "FAULTLINE_ALERTS__GROUPS": "off",
        # The shop and the bot share this machine: looking for work less often leaves it the CPU.
        "FAULTLINE_WORKER__POLLING_INTERVAL_S": "0.5",
    }
