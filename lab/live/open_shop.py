"""`python -m faultline.lab.live.open_shop`: the shop alone, for a Prometheus and a bot that are
started by others, with a page that breaks it. docs/lab.md

Prometheus must share this machine's loopback, where the shop's processes listen, and read targets
and rules from `--room`.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import uuid
from contextlib import ExitStack
from pathlib import Path

import httpx

from faultline.lab.live.break_button import BreakButton, NamedLink
from faultline.lab.live.playing import HARMLESS_EVERY_SCRAPES
from faultline.lab.live.watched_shop import ended_by_sigterm
from faultline.lab.shop.changes import ChangeDesk, Publish, ShopChange
from faultline.lab.shop.running import ShopOptions, running_shop
from faultline.lab.shop.tools import ToolMissing
from faultline.loopback.jaeger import LoopbackJaeger
from faultline.loopback.loki import LoopbackLoki
from faultline.loopback.server import serve_in_thread

TOKEN = "SHOP_CHANGES_TOKEN"  # noqa: S105  the variable's name
TIMEOUT_S = 10.0


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM or Ctrl-C; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        with ended_by_sigterm():
            _run(options)
    except ToolMissing as error:
        _say(str(error))
        return 2
    except KeyboardInterrupt:
        return 0
    return 0


def _run(options: argparse.Namespace) -> None:
    options.room.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="shop-", ignore_cleanup_errors=True) as scratch,
        ExitStack() as stack,
    ):
        room = Path(scratch)
        (room / "logs").mkdir()
        host = options.host
        loki, jaeger = LoopbackLoki(room / "logs").app, LoopbackJaeger().app
        _, stop = serve_in_thread(loki, port=options.loki_port, host=host)
        stack.callback(stop)
        collector, stop = serve_in_thread(jaeger, port=options.jaeger_port, host=host)
        stack.callback(stop)
        shop_options = ShopOptions(
            interval_s=options.interval,
            small=options.small,
            load=options.load,
            collector=collector,
            prometheus=options.prometheus,
            prometheus_room=options.room,
        )
        shop = stack.enter_context(running_shop(room, shop_options))
        rng = random.Random(options.seed)
        desk = ChangeDesk(shop, rng, _publisher(options.changes))
        changing = threading.Lock()
        links = tuple(NamedLink(*pair.split("=", 1)) for pair in options.link)
        button = BreakButton(shop, desk, rng, changing=changing, links=links)
        url, stop = serve_in_thread(button.app, port=options.port, host=host)
        stack.callback(stop)
        mean_s = HARMLESS_EVERY_SCRAPES * options.interval
        stack.enter_context(desk.harmless_all_day(mean_s, rng, changing, button.target))
        _say(f"the shop is open; break it at {url}")
        threading.Event().wait()


def _publisher(url: str) -> Publish:
    """Reports changes to the bot, as docs/report-changes.md says; without a URL, to nobody."""
    headers = {"Authorization": f"Bearer {os.environ.get(TOKEN, '')}"}
    # Numbers begin again with each start, and a report with a known id would replace the old one.
    start = uuid.uuid4().hex[:8]

    def publish(change: ShopChange) -> None:
        if not url:
            return
        reported = {
            "id": f"{start}-{change.id}",
            "service": change.service,
            "kind": change.kind,
            "title": change.title,
            "author": change.author,
            "time": change.at.isoformat(),
        }
        try:
            answer = httpx.post(url, json=reported, headers=headers, timeout=TIMEOUT_S)
            answer.raise_for_status()
        except httpx.HTTPError as error:
            # The shop goes on: a change that nobody hears of is an incident as good as any.
            _say(f"{change.title} was not reported: {error}")

    return publish


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m faultline.lab.live.open_shop")
    parser.add_argument("--room", type=Path, required=True, help="where Prometheus reads targets")
    parser.add_argument("--prometheus", required=True, help="its address")
    parser.add_argument("--changes", default="", help=f"takes changes; its token is in {TOKEN}")
    parser.add_argument("--host", default="127.0.0.1", help="page, Loki and Jaeger listen there")
    parser.add_argument("--port", type=int, default=8000, help="of the page")
    parser.add_argument("--loki-port", type=int, default=3100)
    parser.add_argument("--jaeger-port", type=int, default=16686)
    parser.add_argument("--interval", type=float, default=5, help="seconds between scrapes")
    parser.add_argument("--small", action="store_true", help="three services, no stores")
    parser.add_argument("--load", type=float, default=1, help="times as many customers")
    parser.add_argument("--seed", type=int, help="which faults and changes")
    parser.add_argument("--link", action="append", default=[], help="NAME=URL shown on the page")
    return parser


if __name__ == "__main__":
    sys.exit(main())
