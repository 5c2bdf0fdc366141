"""Starts the whole shop in a folder, and ends it: stores, services, load, Prometheus."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from faultline.lab.shop.certificates import write_certificates
from faultline.lab.shop.layout import ShopService, services_of
from faultline.lab.shop.monitoring import (
    ShopPrometheus,
    prometheus_elsewhere,
    running_prometheus,
    write_targets,
)
from faultline.lab.shop.peers import NAMES
from faultline.lab.shop.pod import ShopPod
from faultline.lab.shop.proxy import admin_port
from faultline.lab.shop.stores import Stores, running_stores
from faultline.lab.shop.tools import ToolMissing

PROXY, SHOPPERS, EXPORTER = "proxy", "shoppers", "exporter"
SAMPLED, SAMPLED_IF_SMALL = 0.1, 0.5
"""Shares of traces that are kept. The small shop has few requests and a short life."""
OVERLAP_S = 0.3
"""A new version has taken its first requests before the old one has to stop."""


@dataclass(frozen=True)
class ShopOptions:
    """How the shop is run."""

    interval_s: float = 15.0
    """How often Prometheus scrapes."""
    small: bool = False
    day_s: float = 3600.0
    """A day of load takes that long."""
    load: float = 1.0
    alerts_to: str = "127.0.0.1:9"
    """HOST:PORT that takes alerts as an Alertmanager does."""
    collector: str = ""
    """Takes spans, as OTLP over HTTP."""
    prometheus: str = ""
    """Address of a Prometheus that runs already; empty: one is started."""
    prometheus_room: Path | None = None
    """The folder from which that one reads targets and rules."""


class Shop:
    """The running shop: what faults, changes and whoever watches it may do with it."""

    def __init__(
        self, room: Path, options: ShopOptions, stores: Stores, process: subprocess.Popen[str]
    ) -> None:
        self.room = room
        self.options = options
        self.stores = stores
        self.services = services_of(small=options.small)
        self.pods: dict[str, ShopPod] = {}
        self.died: list[str] = []
        """What the supervisor reported about processes that ended by themselves."""
        self.prometheus: ShopPrometheus
        self._process = process
        self._speaking = threading.Lock()
        self._hidden: set[str] = set()

    def service(self, name: str) -> ShopService:
        """The row of the layout."""
        return next(service for service in self.services if service.name == name)

    def pods_of(self, service: str) -> list[ShopPod]:
        """Its replicas."""
        return [pod for pod in self.pods.values() if pod.service == service]

    def start(self) -> None:
        """Start every process."""
        proxied: dict[str, ShopPod] = {}
        for service in self.services:
            for pod in self._pods_for(service):
                self.pods[pod.name] = pod
                if service.proxied:
                    proxied[pod.name] = self._helper(f"{PROXY}-{pod.name}", PROXY, pod.port)
        self.pods |= {proxy.name: proxy for proxy in proxied.values()}
        if not self.options.small:
            self.pods[EXPORTER] = self._helper(EXPORTER, EXPORTER)
        self.pods[SHOPPERS] = self._helper(SHOPPERS, SHOPPERS)
        self._write_names()
        for pod in self.pods.values():
            self._tell({"start": pod.as_json()})
        ours = (pod for pod in self.pods.values() if not self._is_external(pod))
        write_targets(self.options.prometheus_room or self.room, ours)

    def deploy(self, service: str, version: str, levers: dict[str, Any] | None = None) -> None:
        """Replace its replicas one by one with another version; no request is lost by that."""
        # One after the other, as a rolling deploy does.
        for pod in self.pods_of(service):
            new = replace(pod, version=version, levers={**(levers or {})})
            self.pods[pod.name] = new
            self._tell({"start": new.as_json(), "overlap_s": OVERLAP_S})

    def move_levers(self, pod: ShopPod, **values: Any) -> None:
        """Through the admin endpoint of one process."""
        secure = self._is_external(pod)
        port = admin_port(pod) if pod.program == PROXY else pod.port
        url = f"{'https' if secure else 'http'}://127.0.0.1:{port}/admin/levers"
        # The provider's certificate may be the very thing that is broken.
        httpx.post(url, json=values, timeout=10, verify=False).raise_for_status()  # noqa: S501

    def hide(self, *services: str) -> None:
        """Only these names do not resolve from now on."""
        self._hidden = set(services)
        self._write_names()

    def guard(self, *pids: int) -> None:
        """Have these processes ended too, should this one be killed."""
        for pid in pids:
            self._tell({"guard": pid})

    def refresh(self) -> list[str]:
        """What has died since this was asked last."""
        self._tell({})
        died, self.died = self.died, []
        return died

    def _is_external(self, pod: ShopPod) -> bool:
        return pod.program == "service" and self.service(pod.service).external

    def _pods_for(self, service: ShopService) -> Iterator[ShopPod]:
        for number, cluster in enumerate(service.clusters, 1):
            yield ShopPod(
                name=f"{service.name}-{cluster}-{number}",
                service=service.name,
                program="service",
                cluster=cluster,
                port=free_ports(1),
                folder=str(self.room),
                small=self.options.small,
                database=self.stores.database,
                redis_socket=self.stores.redis_socket,
                # Nobody of ours sees what goes on inside the provider.
                collector="" if service.external else self.options.collector,
                sampled=SAMPLED_IF_SMALL if self.options.small else SAMPLED,
                memory_mb=service.memory_mb,
            )

    def _helper(self, name: str, program: str, target: int = 0) -> ShopPod:
        return ShopPod(
            name=name,
            service=name,
            program=program,
            cluster="eu",
            port=free_ports(2),
            folder=str(self.room),
            small=self.options.small,
            database=self.stores.database,
            redis_socket=self.stores.redis_socket,
            day_s=self.options.day_s,
            load=self.options.load,
            target=target,
        )

    def _write_names(self) -> None:
        names: dict[str, dict[str, list[int]]] = {}
        for pod in self.pods.values():
            if pod.program != "service" or pod.service in self._hidden:
                continue
            # Whoever is behind a proxy is known by the proxy's address.
            before = self.pods.get(f"{PROXY}-{pod.name}", pod)
            names.setdefault(pod.service, {}).setdefault(pod.cluster, []).append(before.port)
        # Replace the file in one step: readers must not see half of it.
        part = self.room / f"{NAMES}.part"
        part.write_text(json.dumps(names))
        part.rename(self.room / NAMES)

    def _tell(self, command: dict[str, Any]) -> None:
        # One command at a time: each is answered by one line.
        with self._speaking:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            raise ToolMissing(f"the shop's supervisor ended: see {self.room / 'supervisor.log'}")
        self.died += json.loads(line)["died"]


@contextmanager
def running_shop(room: Path, options: ShopOptions) -> Iterator[Shop]:
    """Start it, and end everything at the end of the block."""
    room.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        write_certificates(room)
        stores = Stores("", "")
        if not options.small:
            stores = stack.enter_context(running_stores(room))
        process = stack.enter_context(_supervisor(room))
        shop = Shop(room, options, stores, process)
        shop.start()
        shop.prometheus = stack.enter_context(_prometheus(room, options))
        prometheus_pids = () if shop.prometheus.pid is None else (shop.prometheus.pid,)
        shop.guard(*stores.pids, *prometheus_pids)
        yield shop


def _prometheus(room: Path, options: ShopOptions) -> AbstractContextManager[ShopPrometheus]:
    if options.prometheus:
        reads = options.prometheus_room or room
        return prometheus_elsewhere(reads, options.prometheus, options.interval_s)
    return running_prometheus(room, free_ports(1), options.interval_s, options.alerts_to)


@contextmanager
def _supervisor(room: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "faultline.lab.shop.supervisor"]
    with (room / "supervisor.log").open("wb") as log:
        # A separate session: Ctrl-C in the terminal is for whoever started the shop.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        # The supervisor may have ended already.
        with suppress(OSError):
            process.stdin.write('{"end": true}\n')
            process.stdin.close()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


_USED_PORTS: set[int] = set()


def free_ports(number: int) -> int:
    """The first of that many free loopback ports in a row, never given twice."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = int(probe.getsockname()[1])
        ports = range(first, first + number)
        # Another process may take a port between the probe and its use: never give one twice.
        if _USED_PORTS.isdisjoint(ports) and all(_is_free(port) for port in ports):
            _USED_PORTS.update(ports)
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def summary(pods: Iterable[ShopPod]) -> str:
    """How many processes of what, for people."""
    services = {pod.service for pod in pods if pod.program == "service"}
    replicas = sum(pod.program == "service" for pod in pods)
    return f"{len(services)} services in {replicas} processes"
