"""Every fault that can be switched on: one table, one row per fault."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from faultline.lab.shop import fault_actions as acts
from faultline.lab.shop.changes import ChangeDesk
from faultline.lab.shop.layout import CACHE, DATABASE, ShopService
from faultline.lab.shop.running import Shop

NO_CHANGE = "none"
SLOW = ("slow_code", "latency", "critical_path", "fan_out")
FAILS = ("code_error", "errors", "span_errors", "code_path")
FULL = ("resource_saturation",)
PATHS = ("network", "infrastructure")
LOAD = ("traffic", "demand")
OUTSIDE = ("external_dependency",)


@dataclass(frozen=True)
class ShopFault:
    """One row. `targets` are what it may hit; `changed` the kind of change that did it.

    `kinds` are the kinds of cause by which an answer shows that it saw the fault, and `accepts`
    other names for the culprit that are as good as the target's.
    """

    name: str
    title: str
    act: Callable[[acts.FaultInjection], acts.Undo]
    targets: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    changed: str | None = None
    accepts: tuple[str, ...] = ()
    small: bool = False
    """Whether the small shop can have it."""

    @property
    def calm(self) -> bool:
        """Whether nothing is wrong, so that no cause may be named."""
        return not self.kinds


FAULTS: dict[str, ShopFault] = {
    row.name: row
    for row in (
        ShopFault(
            "slow_code",
            "A new version does more work in every request",
            acts.slow_code,
            ("payments", "inventory", "search", "catalog"),
            SLOW,
            changed="deploy",
            small=True,
        ),
        ShopFault(
            "n_plus_one",
            "A new version makes a call per row instead of one",
            acts.n_plus_one,
            ("search",),
            (*SLOW, *LOAD),
            changed="deploy",
        ),
        ShopFault(
            "connection_leak",
            "A new version does not give database connections back",
            acts.connection_leak,
            ("inventory", "payments"),
            (*FULL, *FAILS),
            changed="deploy",
        ),
        ShopFault(
            "small_pool",
            "The pool of database connections is set too small",
            acts.small_pool,
            ("inventory",),
            (*FULL, *FAILS, *SLOW),
            changed="config",
        ),
        ShopFault(
            "cpu_burn",
            "A new version uses up the CPU",
            acts.cpu_burn,
            ("search", "payments"),
            (*FULL, *SLOW),
            changed="deploy",
        ),
        ShopFault(
            "memory_leak",
            "Requests keep memory until the process is killed, again and again",
            acts.memory_leak,
            ("inventory", "cart"),
            (*FULL, "restarts"),
            changed="deploy",
        ),
        ShopFault(
            "slow_query",
            "A migration makes a query scan its table",
            acts.slow_query,
            (DATABASE,),
            (*SLOW, *FULL),
            changed="migration",
        ),
        ShopFault(
            "database_lock",
            "A session holds a lock on a table",
            acts.database_lock,
            (DATABASE,),
            (*SLOW, *FULL, *FAILS),
        ),
        ShopFault(
            "cache_flush",
            "The cache is flushed again and again",
            acts.cache_flush,
            (CACHE,),
            (*SLOW, *FULL, "anomaly", "data_problem"),
        ),
        ShopFault(
            "retry_storm",
            "A caller gives up too early and asks eight times more",
            acts.retry_storm,
            ("checkout",),
            (*FAILS, *LOAD, *SLOW),
            changed="config",
            small=True,
        ),
        ShopFault(
            "expired_certificate",
            "The provider's certificate has expired",
            acts.expired_certificate,
            ("bank",),
            (*OUTSIDE, *FAILS, *PATHS),
        ),
        ShopFault(
            "dns_failure",
            "A name does not resolve any more",
            acts.dns_failure,
            ("inventory", "payments", "search"),
            (*PATHS, *FAILS),
            accepts=("dns",),
            small=True,
        ),
        ShopFault(
            "disk_full",
            "The disk that mails are written to is full",
            acts.disk_full,
            ("mailer",),
            (*FULL, *FAILS),
        ),
        ShopFault(
            "stuck_consumer",
            "The consumer of the queue takes nothing any more",
            acts.stuck_consumer,
            ("orders",),
            ("backlog", *LOAD),
        ),
        ShopFault(
            "bad_replica",
            "One of several replicas fails or is slow",
            acts.bad_replica,
            ("checkout",),
            (*FAILS, *SLOW, "infrastructure"),
            accepts=("checkout-eu-1", "checkout-eu-2"),
        ),
        ShopFault(
            "bad_cluster",
            "Everything in one of two clusters is slow and fails",
            acts.bad_cluster,
            ("us",),
            (*PATHS, *FAILS, *SLOW),
            accepts=("cluster us", "cluster=us"),
            small=True,
        ),
        ShopFault(
            "external_outage",
            "The provider outside fails or does not answer",
            acts.external_outage,
            ("bank",),
            (*OUTSIDE, *FAILS, *SLOW),
        ),
        ShopFault(
            "bad_flag",
            "A feature flag turns on code that fails",
            acts.bad_flag,
            ("checkout", "web", "inventory"),
            FAILS,
            changed="flag",
            small=True,
        ),
        ShopFault(
            "bad_version",
            "A new version fails in many requests",
            acts.bad_version,
            ("checkout", "payments", "inventory"),
            FAILS,
            changed="deploy",
            small=True,
        ),
        ShopFault(
            "bad_config",
            "A time-out is set in the wrong unit",
            acts.bad_config,
            ("checkout", "payments", "web"),
            (*FAILS, *PATHS),
            changed="config",
        ),
        ShopFault(
            "noisy_neighbour",
            "A batch job holds row locks of the database that others need",
            acts.noisy_neighbour,
            ("report",),
            (*FULL, *LOAD, *SLOW),
        ),
        ShopFault(
            "packet_delay",
            "Packets to a service come late",
            acts.packet_delay,
            ("payments",),
            (*PATHS, "latency"),
            small=True,
        ),
        ShopFault(
            "packet_loss",
            "Packets to a service are lost",
            acts.packet_loss,
            ("payments",),
            (*PATHS, "latency"),
            small=True,
        ),
        ShopFault(
            "traffic_surge",
            "Many more customers search than usual",
            acts.traffic_surge,
            ("web",),
            LOAD,
            accepts=("search",),
        ),
        ShopFault(
            "false_alarm",
            "Nothing is wrong: an alert's threshold is",
            acts.false_alarm,
            ("catalog",),
        ),
    )
}


@dataclass(frozen=True)
class ShopIncident:
    """A fault that has been drawn and not yet switched on."""

    fault: ShopFault
    target: str
    seed: int


@dataclass(frozen=True)
class BrokenShop:
    """A fault that is switched on."""

    incident: ShopIncident
    change: str
    """The id of the guilty change, or "none"."""
    undo: acts.Undo


def faults_for(services: tuple[ShopService, ...], *, small: bool) -> list[ShopFault]:
    """The faults that this shop can have."""
    names = {service.name for service in services}
    stores = set() if small else {DATABASE, CACHE}
    faults = []
    for fault in FAULTS.values():
        # `us` is a cluster and no service.
        targets = names | stores | {"us"}
        if (fault.small or not small) and not targets.isdisjoint(fault.targets):
            faults.append(fault)
    return faults


def fault_order(shop: Shop, seed: int, incidents: int) -> list[str]:
    """Which fault comes when: every fault once before any comes again."""
    # The word keeps these dice apart from others with the same seed.
    rng = random.Random(f"order {seed}")
    names = [fault.name for fault in faults_for(shop.services, small=shop.options.small)]
    order: list[str] = []
    while len(order) < incidents:
        order += rng.sample(names, len(names))
    # The last round may be cut.
    return order[:incidents]


def draw(shop: Shop, seed: int, name: str | None = None) -> ShopIncident:
    """The incident of a seed; of that fault, if one is named."""
    rng = random.Random(f"shop {seed}")
    fault = FAULTS[name or fault_order(shop, seed, 1)[0]]
    names = {service.name for service in shop.services} | {DATABASE, CACHE, "us"}
    target = rng.choice([target for target in fault.targets if target in names])
    return ShopIncident(fault, target, seed)


def switch_on(shop: Shop, incident: ShopIncident, desk: ChangeDesk) -> BrokenShop:
    """Break the shop. Where a change is guilty, it is published as every other change is."""
    fault, change, version = incident.fault, NO_CHANGE, None
    if fault.changed is not None:
        # Published first: in real life, too, the event comes before the new version is everywhere.
        change = desk.publish(incident.target, fault.changed).id
        if fault.changed == "deploy":
            version = desk.version(incident.target)
    # Separate dice: how strong a fault is does not depend on what happened before it.
    rng = random.Random(f"strength {incident.seed}")
    injection = acts.FaultInjection(shop, incident.target, rng, version)
    return BrokenShop(incident, change, fault.act(injection))
