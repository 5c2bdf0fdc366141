"""A TCP proxy between callers and a service: it can delay packets and lose some."""

from __future__ import annotations

import asyncio
import random
import signal
from contextlib import suppress

from aiohttp import web

from faultline.lab.shop.pod import ShopPod

CHUNK = 16_384
RETRANSMISSION_S = (0.2, 1.6)
"""A lost packet comes that much later: Linux' smallest retransmission time-out, and its third
doubling."""
RESET_SHARE = 0.1
"""Of lost packets, those after which the connection is closed."""


class ShopProxy:
    """Forwards bytes to one port. Levers: `delay_s` each way, `loss` of chunks."""

    def __init__(self, pod: ShopPod) -> None:
        self._pod = pod
        self._delay_s = 0.0
        self._loss = 0.0

    async def run(self) -> None:
        """Forward until SIGTERM. The admin endpoint listens on the next port."""
        server = await asyncio.start_server(self._forward, "127.0.0.1", self._pod.port)
        app = web.Application()
        app.router.add_post("/admin/levers", self._move_levers)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", admin_port(self._pod)).start()
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()
        server.close()
        await runner.cleanup()

    async def _move_levers(self, request: web.Request) -> web.Response:
        values = await request.json()
        self._delay_s = float(values.get("delay_s", 0))
        self._loss = float(values.get("loss", 0))
        return web.json_response({})

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            behind = await asyncio.open_connection("127.0.0.1", self._pod.target)
        except OSError:
            writer.close()
            return
        both = (self._pump(reader, behind[1]), self._pump(behind[0], writer))
        # When the proxy ends, so do the connections through it.
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*both, return_exceptions=True)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await source.read(CHUNK):
                await asyncio.sleep(self._delay_s)
                if random.random() < self._loss:
                    await asyncio.sleep(random.uniform(*RETRANSMISSION_S))
                    # Most lost packets only arrive late; a few end the connection.
                    if random.random() < RESET_SHARE:
                        sink.transport.abort()
                        return
                sink.write(chunk)
                await sink.drain()
        sink.close()


def admin_port(pod: ShopPod) -> int:
    """Where a proxy takes its levers."""
    return pod.port + 1


async def serve(pod: ShopPod) -> None:
    """Run the proxy."""
    await ShopProxy(pod).run()
