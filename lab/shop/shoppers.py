"""The load generator: customers who come at random, more of them at noon than at night."""

from __future__ import annotations

import asyncio
import math
import random
import signal
import time
from contextlib import suppress

import aiohttp
from aiohttp import web

from faultline.lab.shop.layout import SHOPPING, services_of
from faultline.lab.shop.peers import AddressBook
from faultline.lab.shop.pod import ShopPod

SWING = 0.35
"""How far the day's curve goes above and below its mean."""
PATIENCE_S = 8.0
MOST_WAITING = 400
"""Requests on their way at once: a slow shop must not make the generator grow without bound."""


class Shoppers:
    """Requests to `web` by a Poisson process per route, open loop: they come however slow the
    shop is. Levers: `surge` multiplies, `route` names the only route to which it applies."""

    def __init__(self, pod: ShopPod) -> None:
        self._pod = pod
        self._books = [AddressBook(pod.room, cluster) for cluster in ("eu", "us")]
        self._surge = 1.0
        self._route = ""
        self._waiting: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Send until SIGTERM."""
        app = web.Application()
        app.router.add_post("/admin/levers", self._move_levers)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self._pod.port).start()
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        front = next(
            service for service in services_of(small=self._pod.small) if service.name == "web"
        )
        routes = [path for path in SHOPPING.rates if path in front.routes]
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            customers = [asyncio.create_task(self._customers(session, path)) for path in routes]
            await stop.wait()
            for task in (*customers, *self._waiting):
                task.cancel()
        await runner.cleanup()

    async def _move_levers(self, request: web.Request) -> web.Response:
        values = await request.json()
        self._surge = float(values.get("surge", 1))
        self._route = str(values.get("route", ""))
        return web.json_response({})

    async def _customers(self, session: aiohttp.ClientSession, path: str) -> None:
        while True:
            # Open loop: the next customer comes whether or not the last one has been served.
            await asyncio.sleep(random.expovariate(self._rate(path)))
            if len(self._waiting) < MOST_WAITING:
                task = asyncio.create_task(self._visit(session, path))
                self._waiting.add(task)
                task.add_done_callback(self._waiting.discard)

    def _rate(self, path: str) -> float:
        day = math.sin(2 * math.pi * time.time() / self._pod.day_s)
        rate = SHOPPING.rates[path] * self._pod.load * (1 + SWING * day)
        return rate * self._surge if self._route in ("", path) else rate

    async def _visit(self, session: aiohttp.ClientSession, path: str) -> None:
        # Two of three customers live in the larger cluster.
        book = random.choices(self._books, (2, 1))[0]
        book.look()
        url = f"http://127.0.0.1:{book.port('web')}{path}"
        limit = aiohttp.ClientTimeout(total=PATIENCE_S)
        with suppress(aiohttp.ClientError, TimeoutError):
            async with session.get(url, timeout=limit) as answer:
                await answer.read()


async def serve(pod: ShopPod) -> None:
    """Run the customers."""
    await Shoppers(pod).run()
