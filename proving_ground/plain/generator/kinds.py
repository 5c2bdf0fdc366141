"""The kinds of incident, and of nothing, as a table: what each bends, and what is true of it.

A bend's target is a role of the cast (`service`, `database`, ...), a part of one (`service/pod`:
its first replica, `service/new`: its new version), all pods of a `node` or `zone`, or calls
(`caller>service`, `*>service`: all calls of it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Shape = Literal[
    "step", "ramp", "slow ramp", "up to it", "spike", "saw", "end of saw", "fade"
]  # fmt: skip
ROLLED_BACK = r"deploy|releas|roll(ed|ing)?.?(back|out)|version|image|{new}"


@dataclass(frozen=True)
class Bend:
    """One lever of the flow, moved to a factor or by an amount."""

    target: str
    lever: str
    amount: float
    shape: Shape = "step"


@dataclass(frozen=True)
class Change:
    """What somebody did. `before_s` is how long before the onset."""

    kind: Literal["deploy", "config", "flag", "scale"]
    role: str
    title: str
    before_s: float = 40.0
    rolls: bool = True
    """Whether pods are replaced."""
    replaced: float = 1.0
    """Share of the pods: less for a canary, or where new pods do not come up."""


@dataclass(frozen=True)
class Kind:
    """One kind of incident. `names` are the roles whose name, in the answer's first cause, lets an
    engineer act; `must` is a pattern that its headline has to match as well. `half` are roles, or
    `halfway` a pattern, that help but lead to the wrong place first."""

    name: str
    bends: tuple[Bend, ...] = ()
    names: tuple[str, ...] = ()
    must: str = ""
    half: tuple[str, ...] = ()
    halfway: str = ""
    change: Change | None = None
    alerts: tuple[str, ...] = ("errors", "latency")
    """What the alert may watch."""
    alerting: tuple[str, ...] = ()
    """Roles that may alert; any service that customers or callers wait for where empty."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Draws of the system that this kind needs."""
    restarts: str = ""
    """Whose containers die: `often`, or every 40 minutes (`cycle`)."""
    onset_min: tuple[float, float] = (12, 22)
    """Minutes before the end."""
    story: Literal["incident", "nothing"] = "incident"


INCIDENTS: tuple[Kind, ...] = (
    Kind("slow callee", (Bend("service", "self_ms", 14),), ("service",)),
    Kind("callee's errors", (Bend("service", "self_errors", 0.3),), ("service",)),
    Kind(
        "provider fails",
        (Bend("provider", "self_errors", 0.7), Bend("provider", "self_ms", 3)),
        ("provider",),
        half=("provider_user",),
    ),
    Kind(
        "own deploy breaks it",
        (Bend("service/new", "self_errors", 0.35),),
        ("service",),
        must=ROLLED_BACK,
        change=Change("deploy", "service", "Deploy {service} {new}"),
        alerting=("service",),
    ),
    Kind(
        "callee's deploy slows it",
        (Bend("service/new", "self_ms", 12), Bend("service/new", "cpu", 3)),
        ("service",),
        must=ROLLED_BACK,
        change=Change("deploy", "service", "Release {new} of {service}"),
    ),
    Kind(
        "time-out cut by a config",
        (Bend("caller>service", "timeout", 0.012),),
        ("caller",),
        must=r"config|time.?out|setting|{change}",
        half=("service",),
        change=Change("config", "caller", "Set {service} client timeout to 30ms in {caller}"),
        alerts=("errors",),
    ),
    Kind(
        "DNS fails",
        (
            Bend("dns", "dns_failed", 0.6),
            Bend("every call", "call_errors", 0.25),
            Bend("every call", "net_ms", 120),
        ),
        ("dns",),
        halfway=r"dns|resol|name lookup",
    ),
    Kind(
        "certificate expired",
        (Bend("*>service", "call_errors", 0.97, "ramp"), Bend("service", "expired", 1)),
        ("service",),
        must=r"certificate|tls|x509|ssl|expired",
        alerts=("errors",),
    ),
    Kind(
        "connection pool leaks",
        (Bend("user>database", "leaked", 9.9, "slow ramp"),),
        ("user",),
        must=r"pool|connection",
        half=("database",),
        onset_min=(35, 50),
    ),
    Kind(
        "slow query in a database",
        (Bend("database", "self_ms", 45), Bend("database", "scanned", 400)),
        ("database",),
        half=("user",),
    ),
    Kind(
        "n+1 queries after a release",
        (Bend("user>database", "per_request", 14), Bend("user/new", "cpu", 1.5)),
        ("user",),
        must=ROLLED_BACK + r"|quer",
        half=("database",),
        change=Change("deploy", "user", "Deploy {user} {new}"),
    ),
    Kind(
        "cache flushed",
        (Bend("cache", "hit_ratio", 0.08, "fade"), Bend("cache", "flushed", 1, "fade")),
        ("cache",),
        half=("database", "cache_user"),
        onset_min=(10, 16),
    ),
    Kind(
        "cache evicts",
        (Bend("cache", "hit_ratio", 0.3, "ramp"), Bend("cache", "evicting", 1, "ramp")),
        ("cache",),
        half=("database", "cache_user"),
    ),
    Kind(
        "OOM kills",
        (Bend("service", "memory", 0.75, "ramp"), Bend("service", "self_errors", 0.25, "ramp")),
        ("service",),
        must=r"memory|oom|killed|restart|crash",
        restarts="often",
    ),
    Kind(
        "memory leak that kills every 40 minutes",
        (Bend("service", "memory", 0.75, "saw"), Bend("service", "self_errors", 0.6, "end of saw")),
        ("service",),
        must=r"memory|oom|killed|leak|restart",
        restarts="cycle",
        onset_min=(2, 4),
    ),
    Kind(
        "throttled CPU",
        (Bend("service", "self_ms", 9), Bend("service", "throttled", 0.75)),
        ("service",),
        must=r"cpu|throttl|limit",
    ),
    Kind(
        "noisy node",
        (Bend("node", "self_ms", 12), Bend("node", "node_cpu", 0.75)),
        ("node", "noisy"),
        half=("on_node",),
        halfway=r"cpu|node",
    ),
    Kind(
        "disk full",
        (Bend("database", "disk", 0.56, "up to it"), Bend("*>database", "call_errors", 0.6)),
        ("database", "volume"),
        must=r"disk|space|volume|full|storage",
        half=("user",),
    ),
    Kind(
        "bad replica",
        (Bend("service/pod", "self_errors", 0.6), Bend("service/pod", "self_ms", 4)),
        ("service", "pod"),
        must=r"{pod}|replica|one pod|1 of|pod ",
    ),
    Kind(
        "bad zone",
        (
            Bend("zone", "self_ms", 7),
            Bend("zone", "self_errors", 0.25),
            Bend("zone", "retransmits", 90),
        ),
        ("zone",),
        half=("zone_node",),
        halfway=r"zone",
        fixed={"calls_by": "client metrics"},
    ),
    Kind(
        "traffic surge",
        (Bend("front", "traffic", 5),),
        ("front", "saturated"),
        must=r"traffic|more requests|request rate|requests rose|load|surge|capacity|saturat|/s",
        half=("front", "saturated"),
    ),
    Kind(
        "retry storm",
        # Tries end before the callee can answer, and each is repeated six times.
        (Bend("caller>service", "timeout", 0.012), Bend("caller>service", "retries", 6)),
        ("caller",),
        must=r"retr|calls .* more|more requests|config|time.?out|{change}",
        half=("service",),
        change=Change("config", "caller", "Try {service} 7 times for 36ms each in {caller}"),
    ),
    Kind(
        "stuck consumer",
        (Bend("worker", "capacity", 0.02),),
        ("worker",),
        half=("queue",),
        alerts=("lag",),
    ),
    Kind(
        "producer floods a queue",
        (Bend("producer>queue", "per_request", 9),),
        ("producer",),
        half=("queue", "worker"),
        change=Change("deploy", "producer", "Deploy {producer} {new}"),
        alerts=("lag",),
    ),
    Kind(
        "batch job starves a database",
        (Bend("database", "extra", 2.4), Bend("database", "self_ms", 3), Bend("job", "runs", 1)),
        ("job",),
        half=("database",),
    ),
    Kind(
        "bad canary",
        (Bend("service/new", "self_errors", 0.5), Bend("service/new", "self_ms", 2)),
        ("service",),
        must=r"canary|deploy|releas|version|{new}|new pod",
        change=Change("deploy", "service", "Canary of {service} {new} (25 %)", replaced=0.25),
    ),
    Kind(
        "database gone",
        (Bend("database", "gone", 1),),
        ("database",),
        half=("user",),
        change=Change("scale", "database", "Scale {database} to 0", rolls=False),
    ),
    Kind(
        "feature flag",
        (Bend("service", "self_errors", 0.3), Bend("service", "self_ms", 2)),
        ("service",),
        must=r"flag|{change}",
        change=Change("flag", "service", "Turn on flag new-pricing for {service}", 30, rolls=False),
        fixed={"changes_by": "annotations"},
    ),
    Kind(
        "hot partition",
        (Bend("worker", "capacity", 0.22), Bend("queue", "hot", 1)),
        ("queue", "worker"),
        must=r"partition",
        half=("queue", "worker"),
        alerts=("lag",),
    ),
    Kind(
        "scaled down by mistake",
        (Bend("service", "scaled", 1),),
        ("service",),
        must=r"scal|replica|pods|capacity|{change}",
        change=Change("scale", "service", "Scale {service} from {replicas} to 1", rolls=False),
    ),
    Kind(
        "crash loop after a release",
        (Bend("service/new", "self_errors", 0.9), Bend("service", "capacity", 0.3)),
        ("service",),
        must=ROLLED_BACK,
        change=Change("deploy", "service", "Deploy {service} {new}", replaced=0.5),
        restarts="often",
    ),
    Kind(
        "lock held in a database",
        (Bend("database", "self_ms", 60), Bend("database", "locked_s", 1)),
        ("database",),
        half=("user",),
    ),
    Kind(
        "autoscaled nowhere: CPU-bound release",
        (Bend("service/new", "cpu", 5), Bend("service/new", "capacity", 0.2)),
        ("service",),
        must=ROLLED_BACK,
        change=Change("deploy", "service", "Deploy {service} {new}"),
    ),
)
NOTHINGS: tuple[Kind, ...] = (
    Kind("flapping", alerts=("flapping",), story="nothing"),
    Kind(
        "recovered",
        (Bend("service", "self_errors", 0.3, "spike"),),
        names=("service",),
        alerts=("errors",),
        story="nothing",
        onset_min=(16, 22),
    ),
    Kind(
        "innocent deploy",
        change=Change("deploy", "service", "Deploy {service} {new}"),
        alerts=("flapping",),
        story="nothing",
    ),
    Kind("daily peak", alerts=("traffic",), alerting=("front",), story="nothing"),
    Kind(
        "broken exporter",
        (Bend("exporter", "mute", 1),),
        names=("exporter_job", "exporter_service", "exporter"),
        must=r"exporter|scrap|target|monitor",
        alerts=("exporter",),
        story="nothing",
    ),
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (*INCIDENTS, *NOTHINGS)}
