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
"""Products in the database. Few are asked for often: see `Cached.keys`."""


@dataclass(frozen=True)
class Work:
    """The service's own processing: most of it waits, as code that reads files or sleeps does."""

    ms: float


@dataclass(frozen=True)
class Call:
    """A request to another service. One that is `optional` may fail: the answer lacks a part."""

    callee: str
    path: str
    timeout_s: float = 1.0
    retries: int = 0
    optional: bool = False


@dataclass(frozen=True)
class Query:
    """One SQL statement; `{id}` becomes a random product."""

    sql: str


@dataclass(frozen=True)
class Enqueue:
    """One more message in a stream of Redis."""

    stream: str


@dataclass(frozen=True)
class Spool:
    """A file of a few kB in the service's spool folder, which has a quota."""

    kilobytes: int = 8


@dataclass(frozen=True)
class Cached:
    """A key of Redis; the steps of `miss` are done where it is not there."""

    prefix: str
    keys: int
    ttl_s: float
    miss: tuple[Query | Call | Work, ...] = ()


Step: TypeAlias = Work | Call | Query | Enqueue | Spool | Cached


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
        found: dict[str, None] = {}
        for steps in self.routes.values():
            found |= _used_by(steps)
        if self.consumer is not None:
            found |= {CACHE: None} | _used_by(self.consumer.steps)
        if self.batch is not None:
            found |= _used_by(self.batch.steps)
        return tuple(found)


def _used_by(steps: tuple[Step, ...]) -> dict[str, None]:
    found: dict[str, None] = {}
    for step in steps:
        if isinstance(step, Call):
            found[step.callee] = None
        elif isinstance(step, Query):
            found[DATABASE] = None
        elif isinstance(step, Enqueue):
            found[CACHE] = None
        elif isinstance(step, Cached):
            found |= {CACHE: None} | _used_by(step.miss)
    return found


EU, US = "eu", "us"
# Sleeps stand for disks that must be read: they make queries slow and cost no CPU.
_PRODUCT = Query("SELECT name, price FROM products WHERE id = {id}")
_FEATURED = Query("SELECT id, name, pg_sleep(0.6) FROM (SELECT * FROM products LIMIT 1) AS one")
_STOCK = Query("SELECT units_of('sku-{id}'), pg_sleep(0.1)")
_RESERVE = Query("SELECT reserve('sku-{id}'), pg_sleep(0.2)")
_CHARGE = Query("INSERT INTO charges (product, amount) VALUES ({id}, 100)")
_ORDER = Query("INSERT INTO orders (product) VALUES ({id})")
_REPORT = Query("SELECT count(*) FROM products WHERE md5(name) < 'b'")

SERVICES: tuple[ShopService, ...] = (
    ShopService(
        "web",
        (EU, US),
        {
            "/home": (
                Work(2),
                Call("catalog", "/featured", timeout_s=1.5, retries=1),
                Call("recommendations", "/for-you", timeout_s=0.5, optional=True),
            ),
            "/product": (
                Work(2),
                Call("catalog", "/product", timeout_s=1.5, retries=1),
                Call("inventory", "/stock", timeout_s=1.0),
            ),
            "/search": (Work(1), Call("search", "/query", timeout_s=2.0)),
            "/cart": (Work(1), Call("cart", "/add", timeout_s=1.0)),
            "/checkout": (Work(3), Call("checkout", "/orders", timeout_s=4.0)),
        },
    ),
    ShopService(
        "catalog",
        (EU, EU, US),
        {
            "/featured": (Work(2), Cached("featured", 4, 20, (_FEATURED,))),
            "/product": (Work(1), Cached("product", 60, 60, (_FEATURED, _PRODUCT))),
        },
        pool_size=2,
    ),
    ShopService(
        "search",
        (EU,),
        {"/query": (Work(50), Call("catalog", "/product", timeout_s=1.4))},
        workers=1,
    ),
    ShopService(
        "recommendations",
        (EU,),
        {
            "/for-you": (
                Work(4),
                Cached("for-you", 40, 45, (Call("catalog", "/product", timeout_s=1.0),)),
            )
        },
    ),
    ShopService(
        "cart",
        (EU,),
        {
            "/add": (Work(1), Cached("cart", 200, 600)),
            "/items": (Work(1), Cached("cart", 200, 600)),
        },
    ),
    ShopService(
        "checkout",
        (EU, EU, US),
        {
            "/orders": (
                Work(5),
                Call("cart", "/items", timeout_s=0.5),
                Call("inventory", "/reserve", timeout_s=1.0),
                Call("payments", "/charge", timeout_s=1.0),
                Enqueue("orders"),
            )
        },
    ),
    ShopService(
        "payments",
        (EU, US),
        {"/charge": (Work(8), Call("bank", "/authorize", timeout_s=0.8), _CHARGE)},
        proxied=True,
    ),
    ShopService("inventory", (EU,), {"/stock": (Work(1), _STOCK), "/reserve": (Work(2), _RESERVE)}),
    ShopService(
        "orders",
        (EU,),
        consumer=Consumer("orders", (_ORDER, Call("mailer", "/send", timeout_s=2.0))),
    ),
    ShopService("mailer", (EU,), {"/send": (Work(3), Spool())}),
    ShopService("report", (EU,), batch=Batch(20.0, (_REPORT,))),
    ShopService("bank", (EU,), {"/authorize": (Work(40),)}, external=True),
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
    return tuple(_cut(one) for one in SERVICES if one.name in SMALL)


def _cut(service: ShopService) -> ShopService:
    routes = {}
    for path, steps in service.routes.items():
        kept = tuple(step for step in steps if _is_kept(step))
        calls_nothing = not any(isinstance(step, Call) for step in kept)
        # A page whose only call is gone would tell nothing.
        if service.name != "web" or not calls_nothing:
            routes[path] = kept
    return replace(service, routes=routes)


def _is_kept(step: Step) -> bool:
    if isinstance(step, Call):
        return step.callee in SMALL
    return isinstance(step, Work)
