"""What the shop is made of: its services, their replicas, and what each route does. One table.

A route is a list of steps, done one after the other. Every step is real: a call is an HTTP request
to another process, a query goes to PostgreSQL, a cache and a queue are keys of Redis.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

DATABASE = "shop-db"
"""What PostgreSQL is called in metrics, settings and answers."""
CACHE = "shop-redis"
PRODUCTS = 5_000
"""Products in the database. Few are asked for often: see `CachedStep.keys`."""


@dataclass(frozen=True)
class WorkStep:
    """The service's own processing: most of it waits, as code that reads files or sleeps does."""

    ms: float


@dataclass(frozen=True)
class CallStep:
    """A request to another service. One that is `optional` may fail: the answer lacks a part."""

    callee: str
    path: str
    timeout_s: float = 1.0
    retries: int = 0
    optional: bool = False


@dataclass(frozen=True)
class QueryStep:
    """One SQL statement; `{id}` becomes a random product."""

    sql: str


@dataclass(frozen=True)
class EnqueueStep:
    """One more message in a stream of Redis."""

    stream: str


@dataclass(frozen=True)
class SpoolStep:
    """A file of a few kB in the service's spool folder, which has a quota."""

    kilobytes: int = 8


@dataclass(frozen=True)
class CachedStep:
    """A key of Redis; the steps of `miss` are done where it is not there."""

    prefix: str
    keys: int
    ttl_s: float
    miss: tuple[QueryStep | CallStep | WorkStep, ...] = ()


Step: TypeAlias = WorkStep | CallStep | QueryStep | EnqueueStep | SpoolStep | CachedStep


@dataclass(frozen=True)
class Consumer:
    """A background task that takes messages from a stream and does steps with each."""

    stream: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Batch:
    """A job that does its steps every so often."""

    every_s: float
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class ShopService:
    """One row of the table. `clusters` names the cluster of each replica."""

    name: str
    clusters: tuple[str, ...]
    routes: dict[str, tuple[Step, ...]] = field(default_factory=dict)
    consumer: Consumer | None = None
    batch: Batch | None = None
    pool_size: int = 5
    workers: int = 32
    """Requests worked on at once in each replica; others wait."""
    memory_mb: int = 220
    external: bool = False
    """Somebody else's: called over TLS, and nobody of ours sees its metrics or logs."""
    proxied: bool = False
    """Whether its callers reach it through the TCP proxy that can delay and lose packets."""

    @property
    def depends_on(self) -> tuple[str, ...]:
        """Everything it calls, stores included, each once."""
        dependencies: dict[str, None] = {}
        for steps in self.routes.values():
            dependencies |= _used_by(steps)
        if self.consumer is not None:
            # A consumer reads its stream from Redis, whatever its steps need.
            dependencies |= {CACHE: None} | _used_by(self.consumer.steps)
        if self.batch is not None:
            dependencies |= _used_by(self.batch.steps)
        return tuple(dependencies)


def _used_by(steps: tuple[Step, ...]) -> dict[str, None]:
    dependencies: dict[str, None] = {}
    for step in steps:
        if isinstance(step, CallStep):
            dependencies[step.callee] = None
        elif isinstance(step, QueryStep):
            dependencies[DATABASE] = None
        elif isinstance(step, EnqueueStep):
            dependencies[CACHE] = None
        elif isinstance(step, CachedStep):
            dependencies |= {CACHE: None} | _used_by(step.miss)
    return dependencies


EU, US = "eu", "us"
# Sleeps stand for disks that must be read: they make queries slow and cost no CPU.
_PRODUCT = QueryStep("SELECT name, price FROM products WHERE id = {id}")
_FEATURED = QueryStep("SELECT id, name, pg_sleep(0.6) FROM (SELECT * FROM products LIMIT 1) AS one")
_STOCK = QueryStep("SELECT units_of('sku-{id}'), pg_sleep(0.1)")
_RESERVE = QueryStep("SELECT reserve('sku-{id}'), pg_sleep(0.2)")
_CHARGE = QueryStep("INSERT INTO charges (product, amount) VALUES ({id}, 100)")
_ORDER = QueryStep("INSERT INTO orders (product) VALUES ({id})")
_REPORT = QueryStep("SELECT count(*) FROM products WHERE md5(name) < 'b'")

SERVICES: tuple[ShopService, ...] = (
    ShopService(
        "web",
        (EU, US),
        {
            "/home": (
                WorkStep(2),
                CallStep("catalog", "/featured", timeout_s=1.5, retries=1),
                CallStep("recommendations", "/for-you", timeout_s=0.5, optional=True),
            ),
            "/product": (
                WorkStep(2),
                CallStep("catalog", "/product", timeout_s=1.5, retries=1),
                CallStep("inventory", "/stock", timeout_s=1.0),
            ),
            "/search": (WorkStep(1), CallStep("search", "/query", timeout_s=2.0)),
            "/cart": (WorkStep(1), CallStep("cart", "/add", timeout_s=1.0)),
            "/checkout": (WorkStep(3), CallStep("checkout", "/orders", timeout_s=4.0)),
        },
    ),
    ShopService(
        "catalog",
        (EU, EU, US),
        {
            "/featured": (WorkStep(2), CachedStep("featured", 4, 20, (_FEATURED,))),
            "/product": (WorkStep(1), CachedStep("product", 60, 60, (_FEATURED, _PRODUCT))),
        },
        pool_size=2,
    ),
    ShopService(
        "search",
        (EU,),
        {"/query": (WorkStep(50), CallStep("catalog", "/product", timeout_s=1.4))},
        workers=1,
    ),
    ShopService(
        "recommendations",
        (EU,),
        {
            "/for-you": (
                WorkStep(4),
                CachedStep("for-you", 40, 45, (CallStep("catalog", "/product", timeout_s=1.0),)),
            )
        },
    ),
    ShopService(
        "cart",
        (EU,),
        {
            "/add": (WorkStep(1), CachedStep("cart", 200, 600)),
            "/items": (WorkStep(1), CachedStep("cart", 200, 600)),
        },
    ),
    ShopService(
        "checkout",
        (EU, EU, US),
        {
            "/orders": (
                WorkStep(5),
                CallStep("cart", "/items", timeout_s=0.5),
                CallStep("inventory", "/reserve", timeout_s=1.0),
                CallStep("payments", "/charge", timeout_s=1.0),
                EnqueueStep("orders"),
            )
        },
    ),
    ShopService(
        "payments",
        (EU, US),
        {"/charge": (WorkStep(8), CallStep("bank", "/authorize", timeout_s=0.8), _CHARGE)},
        proxied=True,
    ),
    ShopService(
        "inventory", (EU,), {"/stock": (WorkStep(1), _STOCK), "/reserve": (WorkStep(2), _RESERVE)}
    ),
    ShopService(
        "orders",
        (EU,),
        consumer=Consumer("orders", (_ORDER, CallStep("mailer", "/send", timeout_s=2.0))),
    ),
    ShopService("mailer", (EU,), {"/send": (WorkStep(3), SpoolStep())}),
    ShopService("report", (EU,), batch=Batch(20.0, (_REPORT,))),
    ShopService("bank", (EU,), {"/authorize": (WorkStep(40),)}, external=True),
)
SMALL = frozenset({"web", "checkout", "payments"})
"""The services of the small shop: no store is needed, and it is up in seconds."""


@dataclass(frozen=True)
class Shopping:
    """What customers do: requests a second for each route of `web`."""

    rates: dict[str, float]


SHOPPING = Shopping({"/home": 3.0, "/product": 4.0, "/search": 2.0, "/cart": 1.5, "/checkout": 3.0})


def services_of(*, small: bool) -> tuple[ShopService, ...]:
    """The whole shop, or the small one: fewer services, and no step that needs a store."""
    if not small:
        return SERVICES
    return tuple(_cut(service) for service in SERVICES if service.name in SMALL)


def _cut(service: ShopService) -> ShopService:
    routes = {}
    for path, steps in service.routes.items():
        remaining_steps = tuple(step for step in steps if _fits_small_shop(step))
        calls_nothing = not any(isinstance(step, CallStep) for step in remaining_steps)
        # A page whose only call is gone would tell nothing.
        if service.name != "web" or not calls_nothing:
            routes[path] = remaining_steps
    return replace(service, routes=routes)


def _fits_small_shop(step: Step) -> bool:
    if isinstance(step, CallStep):
        return step.callee in SMALL
    return isinstance(step, WorkStep)
