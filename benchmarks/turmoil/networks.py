"""A network of hosts whose packets can be dropped: a network namespace per host, and one between
them and this machine that routes.

The router drops by routing rules of the type `blackhole`, which answer with nothing (ip-rule(8)).
They need neither iptables nor nft, and no module of the kernel but veth.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

LOOPBACK = "127.0.0.1"
SUBNETS = range(170, 250)
"""Second numbers of 10.x.0.0/16, one for each run at a time."""
START_S = 10.0
DROP_PRIORITY = "10"
NOT_PERMITTED = "network namespaces need root (CAP_NET_ADMIN), and the programs ip and nsenter"


class Network:
    """Hosts by name. `address` is where this machine's servers listen for them; `why_not` says why
    there are no separate hosts here, and then all of them are this machine."""

    def __init__(self, hosts: Collection[str]) -> None:
        self.address = LOOPBACK
        self.why_not = ""
        self._addresses = dict.fromkeys(hosts, LOOPBACK)
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        self._links: dict[str, str] = {}
        try:
            self._build(list(hosts))
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            self.close()
            self.address, self._addresses = LOOPBACK, dict.fromkeys(hosts, LOOPBACK)
            self.why_not = f"{NOT_PERMITTED}: {_error_text(error)}"

    def address_of(self, host: str) -> str:
        """Where servers on that host are reached."""
        return self._addresses[host]

    def namespace_of(self, host: str) -> Path | None:
        """For setns(2); None where the host is this machine."""
        if self.why_not:
            return None
        return Path(f"/proc/{self._holders[host].pid}/ns/net")

    def drop(self, host: str, ports: Collection[int] = ()) -> None:
        """Drop all packets between the host and these ports of this machine, or between the host
        and everything, both ways and without a word."""
        for rule in self._rules(host, ports):
            self._in_router("ip", "rule", "add", "pref", DROP_PRIORITY, *rule, "blackhole")

    def carry(self, host: str, ports: Collection[int] = ()) -> None:
        """Undo the same `drop`."""
        for rule in self._rules(host, ports):
            self._in_router("ip", "rule", "del", "pref", DROP_PRIORITY, *rule, "blackhole")

    def carry_all(self) -> None:
        """Undo every `drop`."""
        if self.why_not:
            return
        with suppress(subprocess.CalledProcessError):
            while True:
                self._in_router("ip", "rule", "del", "pref", DROP_PRIORITY)

    def close(self) -> None:
        """Take it down. A namespace goes with the last process in it, its links too."""
        for holder in self._holders.values():
            with holder:
                holder.kill()
        with suppress(OSError, subprocess.SubprocessError):
            if self._links.get("trunk"):
                _run("ip", "link", "del", self._links["trunk"])

    def _rules(self, host: str, ports: Collection[int]) -> list[list[str]]:
        there, back = ["iif", self._links[host]], ["iif", "trunk", "to", self._addresses[host]]
        if not ports:
            return [there, back]
        rules = []
        for port in ports:
            rules.append([*there, "ipproto", "tcp", "dport", str(port)])
            rules.append([*back, "ipproto", "tcp", "sport", str(port)])
        return rules

    def _build(self, hosts: list[str]) -> None:
        router = self._hold("router")
        net = self._trunk(router)
        self._in_router("ip", "addr", "add", f"10.{net}.0.2/30", "dev", "trunk")
        for device in ("trunk", "lo"):
            self._in_router("ip", "link", "set", device, "up")
        self._in_router("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        _run("ip", "route", "add", f"10.{net}.0.0/16", "via", f"10.{net}.0.2")
        for nth, host in enumerate(hosts, 1):
            pid, link = self._hold(host), f"host-{nth}"
            self._links[host] = link
            self._addresses[host] = f"10.{net}.{nth}.2"
            peer = ("peer", "name", "eth0", "netns", str(pid))
            self._in_router("ip", "link", "add", link, "type", "veth", *peer)
            self._in_router("ip", "addr", "add", f"10.{net}.{nth}.1/30", "dev", link)
            self._in_router("ip", "link", "set", link, "up")
            inside = ("nsenter", "-t", str(pid), "-n", "ip")
            _run(*inside, "addr", "add", f"10.{net}.{nth}.2/30", "dev", "eth0")
            for device in ("eth0", "lo"):
                _run(*inside, "link", "set", device, "up")
            _run(*inside, "route", "add", "default", "via", f"10.{net}.{nth}.1")
        self.address = f"10.{net}.0.1"

    def _trunk(self, router: int) -> int:
        """The link between this machine and the router, in a subnet that nobody has."""
        for net in SUBNETS:
            name = f"turmoil{net}"
            with suppress(subprocess.CalledProcessError):
                peer = ("peer", "name", "trunk", "netns", str(router))
                _run("ip", "link", "add", name, "type", "veth", *peer)
                self._links["trunk"] = name
                _run("ip", "addr", "add", f"10.{net}.0.1/30", "dev", name)
                _run("ip", "link", "set", name, "up")
                return net
        raise ValueError("a veth link cannot be made, or all subnets are taken")

    def _hold(self, name: str) -> int:
        """A namespace that lives until this process closes it, or dies. Gives a process in it."""
        holder = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE)
        self._holders[name] = holder
        ours, ends = os.readlink("/proc/self/ns/net"), time.monotonic() + START_S
        while os.readlink(f"/proc/{holder.pid}/ns/net") == ours:
            if holder.poll() is not None or time.monotonic() > ends:
                raise ValueError("unshare -n is not permitted")
            time.sleep(0.005)
        return holder.pid

    def _in_router(self, *command: str) -> None:
        _run("nsenter", "-t", str(self._holders["router"].pid), "-n", *command)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=START_S)


def _error_text(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return str(error.stderr).strip()[:120]
    return str(error)[:120]
