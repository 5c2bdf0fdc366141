"""Names of services, stores, providers and machines; none is used by the other simulations."""

from __future__ import annotations

import numpy as np

DOMAINS = (
    "admission", "annuity", "appraisal", "archive", "arrears", "badge", "ballot", "berth",
    "bidding", "broker", "cargo", "census", "chapter", "clinic", "cohort", "collateral",
    "commute", "consent", "crew", "curriculum", "custody", "depot", "dosage", "dunning",
    "eligibility", "enrolment", "escrow", "exam", "excerpt", "fare", "ferry", "freight", "gate",
    "grading", "grant", "harbour", "hearing", "imaging", "intake", "jackpot", "kiosk", "lab",
    "lease", "lesson", "lien", "lyrics", "mandate", "meter", "mortgage", "nomination", "outage",
    "patient", "pension", "permit", "podcast", "premium", "prescription", "quiz", "referral",
    "registry", "roster", "sensor", "shift", "siding", "syllabus", "tariff", "telemetry",
    "tender", "terminal", "timetable", "transcode", "triage", "tuition", "turnstile",
    "underwriting", "valuation", "ward", "weighing", "yield",
)  # fmt: skip
FRONTS = ("web-bff", "public-gw", "app-edge", "api-router", "site-frontend")
ENDINGS = ("", "", "-api", "-svc", "-service", "-engine", "-core")
PROVIDERS = (
    "api.paywright.com", "gateway.cardhaus.io", "api.postgrid.dev", "verify.idlane.com",
    "hooks.smsroute.net", "api.geocodex.com", "rates.fxmarket.io",
)  # fmt: skip
NAMESPACES = ("clinic", "transit", "learning", "lending", "media", "energy", "insure")


class NameBook:
    """Gives names, none twice."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.ending = str(rng.choice(ENDINGS))
        self.domains = [str(name) for name in rng.permutation(DOMAINS)]

    def service(self) -> str:
        """A service, in the style of its company."""
        return self.domains.pop() + self.ending

    def front(self) -> str:
        """The front door."""
        return str(self.rng.choice(FRONTS))

    def worker(self) -> str:
        """Who takes from a queue."""
        return f"{self.domains.pop()}-{self.rng.choice(('worker', 'consumer', 'processor'))}"

    def store(self, user: str, endings: tuple[str, ...]) -> str:
        """A database, cache or queue, named after its first user."""
        return f"{user.partition('-')[0]}-{self.rng.choice(endings)}"

    def provider(self) -> str:
        """A provider outside."""
        return str(self.rng.choice(PROVIDERS))

    def digest(self, length: int) -> str:
        """Part of a pod's name, or a commit."""
        return "".join(self.rng.choice(list("bcdfghjklmnpqrstvwxz2456789"), length))

    def version(self) -> tuple[str, str]:
        """A version and the one after it, in one of the usual forms."""
        major, minor, patch = (int(number) for number in self.rng.integers((0, 1, 0), (5, 30, 9)))
        match int(self.rng.integers(4)):
            case 0:
                return f"{major}.{minor}.{patch}", f"{major}.{minor + 1}.0"
            case 1:
                return f"v{major}.{minor}.{patch}", f"v{major}.{minor}.{patch + 1}"
            case 2:
                return f"2026{minor:02d}-{patch}", f"2026{minor + 1:02d}-{patch}"
        return self.hexadecimal(), self.hexadecimal()

    def hexadecimal(self) -> str:
        """A short commit."""
        return "".join(self.rng.choice(list("0123456789abcdef"), 7))
