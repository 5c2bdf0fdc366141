"""Log lines of many formats whose templates are known: for comparing how well template miners group
them.

Each statement is written as programs write it; `{n}` and the like are its variables. A line's label
is its statement.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable

STATEMENTS = {
    "syslog": (
        "sshd[{n}]: Failed password for {user} from {ip} port {n} ssh2",
        "sshd[{n}]: Failed password for invalid user {user} from {ip} port {n} ssh2",
        "sshd[{n}]: Accepted publickey for {user} from {ip} port {n} ssh2: RSA SHA256:{hex}",
        "sshd[{n}]: pam_unix(sshd:session): session opened for user {user} by (uid=0)",
        "sshd[{n}]: pam_unix(sshd:session): session closed for user {user}",
        "kernel: [{f}] eth0: link up, {n} Mbps, full duplex",
        "kernel: [{f}] eth0: link down",
        "kernel: [{f}] Out of memory: Killed process {n} ({user}) total-vm:{n}kB, anon-rss:{n}kB",
        "systemd[1]: Started {user}.service.",
        "CRON[{n}]: ({user}) CMD (run-parts /etc/cron.hourly)",
    ),
    "java": (
        "{time} INFO  [http-nio-8080-exec-{s}] c.s.o.OrderService : Order {uuid} created for customer {n}",  # noqa: E501
        "{time} INFO  [http-nio-8080-exec-{s}] c.s.o.OrderService : Order {uuid} cancelled by customer {n}",  # noqa: E501
        "{time} WARN  [http-nio-8080-exec-{s}] c.s.o.OrderService : Order {uuid} has no items, skipped",  # noqa: E501
        "{time} ERROR [http-nio-8080-exec-{s}] c.s.p.PayClient : Payment {uuid} failed after {n} ms: {host} refuses",  # noqa: E501
        "{time} DEBUG [main] c.z.h.HikariPool : HikariPool-{s} - Pool stats (total={s}, active={s}, idle={s})",  # noqa: E501
        "{time} INFO  [main] o.s.b.StartupLogger : Started Application in {f} seconds (JVM running for {f})",  # noqa: E501
        "{time} WARN  [kafka-{s}] o.a.k.c.NetworkClient : Connection to node {s} ({host}/{ip}:9092) failed",  # noqa: E501
        "{time} INFO  [kafka-{s}] o.a.k.c.ConsumerCoordinator : Revoke previously assigned partitions [{n}, {n}, {n}]",  # noqa: E501
    ),
    "go json": (
        '{{"level":"info","ts":"{time}","msg":"request served","path":"/api/v1/orders/{n}","ms":{f}}}',  # noqa: E501
        '{{"level":"error","ts":"{time}","msg":"cannot reach {host}:{n}: connection refused","attempt":{s}}}',  # noqa: E501
        '{{"level":"warn","ts":"{time}","msg":"retrying in {f}s","attempt":{s}}}',
        '{{"level":"info","ts":"{time}","msg":"cache miss for key cart:{uuid}"}}',
        '{{"level":"info","ts":"{time}","msg":"cache hit for key cart:{uuid}"}}',
        '{{"level":"info","ts":"{time}","msg":"shutting down"}}',
    ),
    "access log": (
        '{ip} - - [{clf}] "GET /cart/{n} HTTP/1.1" 200 {n} "-" "curl/8.1"',
        '{ip} - - [{clf}] "POST /checkout HTTP/1.1" 200 {n} "-" "curl/8.1"',
        '{ip} - - [{clf}] "DELETE /cart/{n} HTTP/1.1" 204 {s} "-" "curl/8.1"',
        "{date} [error] {n}#{n}: *{n} upstream timed out (110: Connection timed out) while reading from {ip}:{n}",  # noqa: E501
        "{date} [error] {n}#{n}: *{n} connect() failed (111: Connection refused) while connecting to {ip}:{n}",  # noqa: E501
        "{date} [warn] {n}#{n}: *{n} a client request body is buffered to a temporary file /var/cache/{n}",  # noqa: E501
    ),
    "python": (
        "{time},{s} INFO worker.py:41 task shop.tasks.charge[{uuid}] received",
        "{time},{s} INFO worker.py:87 task shop.tasks.charge[{uuid}] succeeded in {f}s: None",
        "{time},{s} ERROR worker.py:93 task shop.tasks.charge[{uuid}] raised unexpected: ValueError('{n}')",  # noqa: E501
        "{time},{s} WARNING pool.py:12 connection pool is full, discarding connection: {host}",
        "{time},{s} INFO db.py:77 query took {f} ms: SELECT * FROM orders WHERE id = {n}",
        "{time},{s} INFO train.py:120 epoch {s} step {n} loss {f} lr {f}",
    ),
    "kubernetes": (
        "I{n} {clock} {s} reconciler.go:224] operationExecutor.MountVolume started for volume {uuid}",  # noqa: E501
        "I{n} {clock} {s} kubelet.go:1932] SyncLoop (PLEG): pod {pod} event ContainerStarted {hex}",
        "I{n} {clock} {s} kubelet.go:1932] SyncLoop (PLEG): pod {pod} event ContainerDied {hex}",
        "E{n} {clock} {s} pod_workers.go:191] Error syncing pod {uuid}, skipping: CrashLoopBackOff",
        "W{n} {clock} {s} eviction_manager.go:344] attempting to reclaim memory, {n}Mi available",
        "Successfully assigned shop/{pod} to node-{s}",
        "Back-off restarting failed container in pod {pod}",
        "Readiness probe failed: Get http://{ip}:{n}/healthz: context deadline exceeded",
        "Liveness probe failed: HTTP probe failed with statuscode: 503",
    ),
}  # fmt: skip
_USERS = (
    "root",
    "admin",
    "ann",
    "bob",
    "deploy",
    "git",
    "mail",
    "nobody",
    "oracle",
    "test",
    "ubuntu",
    "www",
)
_HOSTS = tuple(
    f"{a}.{b}.internal"
    for a in ("db", "cache", "queue", "pay", "mail")
    for b in ("east", "west", "eu")
)
_SLOT = re.compile(r"\{(\w+)\}")


def labelled_lines(count: int, seed: int = 1) -> tuple[list[str], list[str]]:
    """`count` lines, and of each the statement that wrote it; frequent and rare statements as in
    real logs."""
    chance = random.Random(seed)
    statements = [s for group in STATEMENTS.values() for s in group]
    chance.shuffle(statements)
    weights = [1.0 / (rank + 1) for rank in range(len(statements))]
    labels = chance.choices(statements, weights, k=count)
    values = _values(chance)
    lines = [
        _SLOT.sub(lambda slot: values[slot[1]](), label).replace("{{", "{").replace("}}", "}")
        for label in labels
    ]
    return lines, labels


def _values(chance: random.Random) -> dict[str, Callable[[], str]]:
    def clock() -> str:
        return f"{chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}"

    def letters(n: int) -> str:
        return "".join(chance.choices("bcdfghjklmnpqrstvwxz2456789", k=n))

    return {
        "n": lambda: str(chance.randrange(100, 99_999)),
        "s": lambda: str(chance.randrange(1, 30)),
        "f": lambda: f"{chance.random() * 90:.3f}",
        "ip": lambda: ".".join(str(chance.randrange(1, 255)) for _ in range(4)),
        "hex": lambda: f"{chance.getrandbits(160):040x}",
        "uuid": lambda: str(uuid.UUID(int=chance.getrandbits(128))),
        "user": lambda: chance.choice(_USERS),
        "host": lambda: chance.choice(_HOSTS),
        "pod": lambda: f"api-{chance.getrandbits(40):010x}-{letters(5)}",
        "clock": lambda: f"{clock()}.{chance.randrange(10**6):06}",
        "time": lambda: f"2026-03-{chance.randrange(1, 29):02} {clock()}",
        "date": lambda: f"2026/03/{chance.randrange(1, 29):02} {clock()}",
        "clf": lambda: f"{chance.randrange(1, 29):02}/Mar/2026:{clock()} +0000",
    }
