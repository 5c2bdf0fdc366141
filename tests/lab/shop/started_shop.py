"""A shop whose processes are listeners in this process: they take levers and serve no customer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from faultline.lab.shop.certificates import server_context, write_certificates
from faultline.lab.shop.levers import ServiceLevers
from faultline.lab.shop.monitoring import RULES, TARGETS, prometheus_elsewhere
from faultline.lab.shop.peers import NAMES
from faultline.lab.shop.pod import ShopPod
from faultline.lab.shop.proxy import admin_port
from faultline.lab.shop.running import PROXY, Shop, ShopOptions
from faultline.lab.shop.stores import Stores

COLLECTOR = "http://127.0.0.1:9"
HEALTHY_HELPERS: dict[str, dict[str, Any]] = {
    "proxy": {"delay_s": 0, "loss": 0},
    "shoppers": {"surge": 1, "route": ""},
}


class ListeningPods:
    """Stands where the supervisor's process stands: each pod that is started listens for levers."""

    def __init__(self, shop_folder: Path, external: frozenset[str]) -> None:
        self.levers: dict[str, dict[str, Any]] = {}
        self.versions: dict[str, str] = {}
        self.commands: list[dict[str, Any]] = []
        self.stdin = self.stdout = self
        self._folder = shop_folder
        self._external = external
        self._listeners: dict[str, ThreadingHTTPServer] = {}

    def write(self, line: str) -> None:
        """A command, as the supervisor reads it."""
        command = json.loads(line)
        self.commands.append(command)
        if "start" in command:
            self._start(ShopPod(**command["start"]))

    def flush(self) -> None:
        """Nothing waits."""

    def readline(self) -> str:
        """The supervisor's answer."""
        return '{"pids": {}, "died": ["web-eu-1 ended with 9"]}'

    def close(self) -> None:
        """Stop every listener."""
        for listener in self._listeners.values():
            listener.shutdown()
            listener.server_close()

    def _start(self, pod: ShopPod) -> None:
        self.versions[pod.name] = pod.version
        if pod.program == "service":
            levers = ServiceLevers()
            levers.update(pod.levers)
            self.levers[pod.name] = asdict(levers)
        else:
            self.levers[pod.name] = dict(HEALTHY_HELPERS.get(pod.program, {}))
        if pod.name not in self._listeners:
            port = admin_port(pod) if pod.program == PROXY else pod.port
            listener = ThreadingHTTPServer(("127.0.0.1", port), self._handler(pod))
            if pod.service in self._external:
                context = server_context(self._folder)
                listener.socket = context.wrap_socket(listener.socket, server_side=True)
            self._listeners[pod.name] = listener
            serve = {"poll_interval": 0.02}
            threading.Thread(target=listener.serve_forever, kwargs=serve, daemon=True).start()

    def _handler(pods, pod: ShopPod) -> type[BaseHTTPRequestHandler]:
        class LeverHandler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                values = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                levers = pods.levers[pod.name]
                is_understood = self.path == "/admin/levers" and levers.keys() >= values.keys()
                # A service keeps what is not named; the others take it for what is usual.
                levers.update({**HEALTHY_HELPERS.get(pod.program, {}), **values})
                self.send_response(200 if is_understood else 400)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return LeverHandler


class StartedShop:
    """The shop, and the state of each of its parts."""

    def __init__(self, folder: Path, shop: Shop, pods: ListeningPods) -> None:
        self.shop = shop
        self.pods = pods
        self._folder = folder

    def state(self) -> dict[str, object]:
        """Levers of each process, names that resolve, and the alert rules."""
        return {
            **{name: dict(levers) for name, levers in self.pods.levers.items()},
            "names": self.names(),
            "rules": (self._folder / RULES).read_text(),
        }

    def names(self) -> dict[str, dict[str, list[int]]]:
        """What resolves: ports by service and cluster."""
        names: dict[str, dict[str, list[int]]] = json.loads((self._folder / NAMES).read_text())
        return names

    def targets(self) -> list[dict[str, Any]]:
        """What Prometheus scrapes."""
        targets: list[dict[str, Any]] = json.loads((self._folder / TARGETS).read_text())
        return targets


@contextmanager
def started_shop(folder: Path, prometheus: str, *, small: bool = False) -> Iterator[StartedShop]:
    """Start it; `prometheus` is the address of a server that rereads its rules."""
    write_certificates(folder)
    with ExitStack() as stack:
        pods = ListeningPods(folder, frozenset({"bank"}))
        stack.callback(pods.close)
        shop = Shop(
            folder, ShopOptions(small=small, collector=COLLECTOR), Stores("", ""), cast("Any", pods)
        )
        shop.start()
        shop.prometheus = stack.enter_context(prometheus_elsewhere(folder, prometheus, 15.0))
        yield StartedShop(folder, shop, pods)
