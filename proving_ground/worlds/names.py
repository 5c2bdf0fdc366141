"""Names of systems, services and machines, in the styles real systems use."""

from __future__ import annotations

import numpy as np

WORDS = [
    "account",
    "address",
    "admin",
    "ads",
    "analytics",
    "auth",
    "availability",
    "basket",
    "billing",
    "booking",
    "campaign",
    "card",
    "cart",
    "catalog",
    "channel",
    "checkout",
    "claims",
    "comment",
    "config",
    "contact",
    "content",
    "coupon",
    "courier",
    "credit",
    "currency",
    "customer",
    "dashboard",
    "delivery",
    "device",
    "discount",
    "dispatch",
    "document",
    "driver",
    "email",
    "export",
    "feed",
    "fleet",
    "forecast",
    "fraud",
    "fulfilment",
    "gift",
    "identity",
    "import",
    "inbox",
    "insight",
    "inventory",
    "invoice",
    "item",
    "label",
    "ledger",
    "listing",
    "location",
    "login",
    "loyalty",
    "mail",
    "map",
    "media",
    "member",
    "menu",
    "merchant",
    "message",
    "news",
    "note",
    "offer",
    "order",
    "parcel",
    "partner",
    "payment",
    "payout",
    "permission",
    "photo",
    "pick",
    "plan",
    "playlist",
    "point",
    "policy",
    "preference",
    "price",
    "product",
    "profile",
    "promo",
    "quote",
    "rating",
    "receipt",
    "recommend",
    "refund",
    "region",
    "report",
    "reservation",
    "return",
    "review",
    "reward",
    "risk",
    "route",
    "sales",
    "schedule",
    "seat",
    "search",
    "session",
    "settlement",
    "shipping",
    "shop",
    "stock",
    "store",
    "subscription",
    "supplier",
    "survey",
    "tax",
    "ticket",
    "track",
    "transfer",
    "travel",
    "trip",
    "upload",
    "user",
    "vehicle",
    "video",
    "visit",
    "voucher",
    "wallet",
    "warehouse",
    "watch",
    "wishlist",
]
SECOND = ("", "", "", "query", "sync", "core", "index", "rules", "history", "engine", "writer")
FRONTS = ("gateway", "web", "storefront", "mobile-api", "edge-proxy", "public-api", "portal", "bff")
EXTERNALS = (
    "stripe",
    "adyen",
    "twilio",
    "sendgrid",
    "auth0",
    "maps-api",
    "fx-rates",
    "sms-gateway",
    "tax-provider",
    "carrier-api",
    "kyc-provider",
    "geo-ip",
    "push-provider",
    "bank-link",
)
DATABASES = ("db", "postgres", "mysql", "store", "dynamo", "mongo", "aurora")
CACHES = ("cache", "redis", "memcached")
QUEUES = ("queue", "events", "topic", "jobs")
STYLES = ("kebab", "suffix", "camel", "snake", "prefix", "compact")


class NameBook:
    """Gives names of one style, no name twice."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._style = str(rng.choice(STYLES))
        self._prefix = str(rng.choice(("ts", "acme", "prod", "app")))
        self._used: set[str] = set()

    def service(self) -> str:
        """A service's name."""
        while True:
            parts = [str(self._rng.choice(WORDS))]
            second = str(self._rng.choice(SECOND))
            if second or len(self._used) > len(WORDS):
                parts.append(second or str(self._rng.choice(WORDS)))
            name = self._styled(parts, "service")
            if name not in self._used:
                return self._take(name)

    def front(self) -> str:
        """A front door's name."""
        return self._free([str(self._rng.choice(FRONTS))])

    def store(self, owner: str, words: tuple[str, ...]) -> str:
        """A database, cache or queue, mostly named after its first user."""
        word = str(self._rng.choice(words))
        if self._rng.random() < 0.25:
            return self._free([str(self._rng.choice(WORDS)), word])
        return self._free([*_parts(owner, self._prefix), word])

    def external(self) -> str:
        """A provider outside the system: its name follows no style of ours."""
        plain = str(self._rng.choice(EXTERNALS))
        name = plain
        number = 2
        while name in self._used:
            name = f"{plain}-{number}"
            number += 1
        return self._take(name)

    def _free(self, parts: list[str]) -> str:
        name = self._styled(parts, "")
        number = 2
        while name in self._used:
            name = self._styled([*parts, str(number)], "")
            number += 1
        return self._take(name)

    def _take(self, name: str) -> str:
        self._used.add(name)
        return name

    def _styled(self, parts: list[str], suffix: str) -> str:
        words = [word for part in parts for word in part.split("-")]
        if self._style == "suffix" and suffix:
            words = [*words, suffix]
        if self._style == "prefix":
            words = [self._prefix, *words]
        if self._style == "camel":
            return "".join(word.capitalize() for word in words)
        if self._style == "snake":
            return "_".join(words)
        if self._style == "compact":
            return "".join(words) + suffix
        return "-".join(words)


def _parts(name: str, prefix: str) -> list[str]:
    """The words of a styled name, without what the style added."""
    spaced = "".join(f" {c.lower()}" if c.isupper() else c for c in name)
    words = spaced.replace("-", " ").replace("_", " ").split()
    remaining_words = [word for word in words if word not in ("service", prefix)]
    return [word.removesuffix("service") or word for word in remaining_words] or ["main"]
