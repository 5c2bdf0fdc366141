"""From log lines: why something fails that no change of ours causes.

Only warnings and errors that the incident has three times as often as the baseline are read,
distinct lines once, so the cost does not grow with repeated lines.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from faultline.analysis.case.addresses import INSIDE, names_service
from faultline.analysis.case.folder import Case
from faultline.analysis.changes.symptoms import FailingLine
from faultline.analysis.kinds.fault_kinds import DATA_PROBLEM, EXTERNAL_DEPENDENCY, INFRASTRUCTURE
from faultline.analysis.kinds.finding_details import NoChangeDetails
from faultline.analysis.requests.topology import Topology
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import counted, plain

ENOUGH_LINES = 3
"""Fewer lines of one kind are an accident."""
MOST = 0.4
"""What explains a service must be in this share of its failing lines."""

_NAMES = re.compile(
    r"no such host|name or service not known|temporary failure in name resolution|enotfound"
    r"|eai_again|nxdomain|servfail"
    r"|server misbehaving|could not resolve|name resol|unknown ?host|zero addresses|no addresses"
    r"|no upstream nameservers|nameserver|resolv\.conf|dns (lookup|query|error|timeout|failure)"
    r"|lookup \S+ on \S+:53",
    re.IGNORECASE,
)
_NODE = re.compile(
    r"node ?not ?ready|nodenotready|node \S+ (is |status is now: ?)?(not ?ready|unreachable"
    r"|cordoned|lost|under"
    r"|has)|\bevict(ed|ing|ion)|preempt|spot (instance )?(interruption|termination)"
    r"|instance (terminat|retir|is being|scheduled)"
    r"|maintenance event|host (error|maintenance)|noisy neighbou?r|co-?tenant|cpu steal|steal time"
    r"|(memory|disk|pid)pressure|nodeunderpressure|availability zone|\bzone\b.{0,40}(outage|impair"
    r"|unavail)"
    r"|i/o error|input/output error|hardware error|mce:|machine check|ecc error|link is down"
    r"|link down|nic .*down"
    r"|soft lockup|hung_task|blocked for more than|kernel panic|smart error|degraded raid",
    re.IGNORECASE,
)
_ZONE = re.compile(r"\b(availability zone|zone|region|data ?cent(er|re)|cloud)\b", re.IGNORECASE)
"""A problem of a zone concerns every service that fails."""
_EXPIRED = re.compile(
    r"certificate (has )?expired|x509:.{0,60}expired|cert(ificate)?.{0,40}(not after|expir(ed|y))"
    r"|certificate is not (yet )?valid|ssl.{0,40}expired|licen[cs]e (key )?(has )?expired",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"quota.{0,30}(exceed|exhaust|reach)|exceeded.{0,30}quota|\b429\b|too many requests"
    r"|rate ?limit(ed| exceeded)"
    r"|insufficient_quota|resource_exhausted|requestlimitexceeded|limit ?exceeded ?exception",
    re.IGNORECASE,
)
_FAILING = re.compile(
    r"\b5\d\d\b|timed? ?out|timeout|unavailable|refused|reset|unreachable|bad gateway|fail(ed|ure)"
    r"|error|down\b|outage"
    r"|degraded",
    re.IGNORECASE,
)
_HOST = re.compile(
    r"(?<![\w@.-])((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,5}"
    r"(?:com|net|org|io|co|ai|dev|app|cloud|tech|eu|us|uk|de|fr|nl|jp|cn|in|br|au|ca|ch|se|es|it"
    r"|pl|info|biz|gov|edu))"
    r"(?![\w.-]*\w)(?!\()"
)
"""Names under the most used public suffixes, in lower case; files and packages of code end
otherwise."""
_API_GROUPS = (".k8s.io", ".x-k8s.io")
_KUBERNETES_REGISTRY = "registry.k8s.io"
"""Groups of the Kubernetes API are called like hosts: `get pods.metrics.k8s.io` asks the cluster's
own API server. Images come from the one host of that name."""
_PROVIDER = re.compile(
    r"third[- ]?party|external (provider|service|api|vendor|dependency)|upstream provider"
    r"|partner api|vendor api"
    r"|provider (is )?(down|outage|unavailable|degraded|returned|status)|payment (processor"
    r"|provider)|status ?page",
    re.IGNORECASE,
)
_API = re.compile(
    r"\b([A-Z][A-Za-z0-9]{2,30}) API\b(?=.{0,80}(?:\b5\d\d\b|unavailable|outage|down\b|tim(?:ed"
    r"|e)[ -]?out))"
)
_PACKAGES = frozenset(
    {"java", "javax", "sun", "jdk", "kotlin", "android", "org", "com", "net", "io"}
)
"""How names of packages begin that end like hosts: `java.io`, `java.net`."""
_BAD_DATA = re.compile(
    r"malformed|corrupt|unparse?able|(cannot|could not|failed to|unable to|error) (parse|decode"
    r"|deserialize|unmarshal)"
    r"|(pars(e|ing)|decod(e|ing)|deserializ\w+|validation|unmarshal\w*|schema|conversion) (error"
    r"|fail\w*|exception)"
    r"|out of range|invalid (record|message|payload|value|row|date|timestamp|character|byte|utf-?8"
    r"|encoding|input|data"
    r"|number|field|json|format)|unexpected (token|character|end|value|null|byte)|poison"
    r"|bad (record|message|row|payload|data|input)"
    r"|violates .{0,30}constraint|duplicate key|not a valid|numberformatexception|jsondecodeerror"
    r"|unicodedecodeerror",
    re.IGNORECASE,
)
_KEYED = re.compile(
    r"[\"']?\b((?:messaging\.)?(?:kafka\.)?(?:message[._-]?|record[._-]?|event[._-]?|msg[._-]?"
    r"|row[._-]?|object[._-]?|batch[._-]?"
    r"|file[._-]?|document[._-]?|order[._-]?|source[._-]?)?(?:id|offset|key|uuid|number|name|file"
    r"|path|row|line|document))[\"']?"
    r"\s?[=:]\s?[\"']?([\w./:@+-]{1,80})",
    re.IGNORECASE,
)
_SPOKEN_KEY = re.compile(
    r"\b(offset|record|message|row|line|file|object|document|event|key"
    r"|s3 object)\s#?([\w./:@+-]*\d[\w./:@+-]*)",
    re.IGNORECASE,
)
_SOURCE = re.compile(
    r"\b(producer|partner|feed|supplier|tenant|customer|client_?id|account|source|vendor|publisher"
    r"|sender|merchant)"
    r"(?:[._-]?id)?[\"']?\s?[=:]\s?[\"']?([\w./:@+-]{1,80})",
    re.IGNORECASE,
)
_NO_KEYS = frozenset({"trace_id", "span_id", "request_id", "thread.name", "logger.name"})


def line_reasons(
    case: Case,
    topology: Topology,
    lines: Sequence[FailingLine],
    operations: Sequence[FailingLine] = (),
) -> list[Finding]:
    """External dependencies, names that do not resolve, failing nodes, expiries, quotas and bad
    data."""
    if not lines:
        return []
    totals = Counter[str]()
    for line in lines:
        totals[line.service] += line.n
    services = {
        *topology.services,
        *totals,
        *case.metrics["service"].drop_nulls().unique().to_list(),
    }
    findings = [
        *_unresolved(lines, totals),
        *_of_nodes(lines),
        *_expired(lines, totals),
        *_external(lines, totals, {service.lower() for service in services}, operations),
        *_bad_data(lines, totals),
    ]
    every = case.evidence_ids("logs")
    return [
        finding.model_copy(update={"evidence": finding.evidence or every}) for finding in findings
    ]


def _matching(lines: Iterable[FailingLine], pattern: re.Pattern[str]) -> list[FailingLine]:
    return [line for line in lines if pattern.search(line.whole)]


def _by_service(lines: Iterable[FailingLine]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for line in lines:
        counts[line.service] += line.n
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _dominated_services(lines: Sequence[FailingLine], totals: Mapping[str, int]) -> list[str]:
    """The services where these are most of the failing lines."""
    services = []
    for service, count in _by_service(lines).items():
        if count >= ENOUGH_LINES and count >= MOST * totals[service]:
            services.append(service)
    return services


def _count(lines: Iterable[FailingLine]) -> int:
    """How often the lines came."""
    return sum(line.n for line in lines)


def _hosts_in(texts: Iterable[str]) -> set[str]:
    hosts: set[str] = set()
    for text in texts:
        hosts |= _hosts(text)
    return hosts


def _unresolved(lines: Sequence[FailingLine], totals: Mapping[str, int]) -> Iterator[Finding]:
    """Names that do not resolve, in several services or for several names: the resolver, and no one
    address."""
    matches = _matching(lines, _NAMES)
    services = _dominated_services(matches, totals)
    hosts = _hosts_in(line.text for line in matches)
    # One name in one service is that name's problem, and not the resolver's.
    if not services or (len(services) < 2 and len(hosts) < 2):
        return
    n = _count(matches)
    strength = 0.95 if len(services) >= 2 else 0.7
    phrase = f"{counted(n, 'line')} of {_some(services)} say that host names do not resolve"
    yield _finding(INFRASTRUCTURE.name, "names", services, matches, strength, phrase, {"lines": n})


def _of_nodes(lines: Sequence[FailingLine]) -> Iterator[Finding]:
    """Events of nodes, hosts and hardware; they come once, so one line is enough, and several say
    more."""
    matches = _matching(lines, _NODE)
    if not matches:
        return
    nodes, kinds = set[str](), set[str]()
    for line in matches:
        nodes.update(_NODE_NAME.findall(line.whole))
        event = _NODE.search(line.whole)
        if event is not None:
            kinds.add(event.group(0).lower())
    named = sorted(nodes)
    n = _count(matches)
    phrase = f"{counted(n, 'line')} report trouble with {_some(named, 'the node')}"
    touched = {line.service for line in matches}
    wide = bool(_matching(matches, _ZONE))
    for line in lines:
        # At most 20 names: each one is looked for in every line.
        if wide or any(node in line.whole for node in named[:20]):
            touched.add(line.service)
    strength = min(0.95, 0.5 + 0.15 * len(kinds))
    yield _finding(
        INFRASTRUCTURE.name, "node", sorted(touched), matches, strength, phrase, {"lines": n}, named
    )


_NODE_NAME = re.compile(
    r"(?:\b[Nn]ode[\"']?[ =:]{1,3}[\"']?|\"(?:k8s\.node(?:\.name)?|host(?:\.name)?|node)\":\s?\")"
    r"((?!(?:is|has|not|status|under|pool)\b)[A-Za-z0-9][\w.-]{2,80})"
)


def _expired(lines: Sequence[FailingLine], totals: Mapping[str, int]) -> Iterator[Finding]:
    matches = _matching(lines, _EXPIRED)
    services = _dominated_services(matches, totals)
    if not services:
        return
    n = _count(matches)
    phrase = (
        f"{counted(n, 'line')} of {_some(services)} say that a certificate or licence has expired"
    )
    yield _finding(INFRASTRUCTURE.name, "expiry", services, matches, 0.9, phrase, {"lines": n})


def _external(
    lines: Sequence[FailingLine],
    totals: Mapping[str, int],
    service_names: set[str],
    operations: Sequence[FailingLine],
) -> Iterator[Finding]:
    """Failing calls to one host that is none of the known services, or to a provider that the lines
    call one."""
    by_host: dict[str, list[FailingLine]] = defaultdict(list)
    for line in lines:
        # A host in a line without a failure accuses nobody.
        if not (_FAILING.search(line.whole) or _QUOTA.search(line.whole)):
            continue
        for host in _hosts(line.whole):
            if not _is_ours(host, service_names):
                by_host[host].append(line)
        for name in _api_names(line.text, service_names):
            by_host[name].append(line)
    failing = _hosts_in(line.whole for line in operations)
    for host, host_lines in sorted(by_host.items()):
        services = _dominated_services(host_lines, totals)
        if not services:
            continue
        n = _count(host_lines)
        reason, what, strength = "provider", "get no good answer from", 0.75
        # A change of ours can use up a quota too, so a quota explains less.
        if len(_matching(host_lines, _QUOTA)) >= MOST * len(host_lines):
            reason, what, strength = "quota", "are refused for their number by", 0.6
        # A second service or a failing operation is a second witness.
        if len(services) >= 2 or host in failing:
            strength += 0.15
        phrase = (
            f"{counted(n, 'line')} of {_some(services)} {what} {plain(host, 80)}, which is none of "
            "the known services"
        )
        yield _finding(
            EXTERNAL_DEPENDENCY.name, reason, services, host_lines, strength, phrase, {"lines": n}
        )


def _is_ours(host: str, service_names: Collection[str]) -> bool:
    """Whether a part of the host's name is a known service's, or says that it is inside."""
    labels = host.split(".")
    if not INSIDE.isdisjoint(labels):
        return True
    return any(label in service_names and names_service(label, labels) for label in labels)


def _api_names(text: str, service_names: set[str]) -> Iterator[str]:
    """A provider that a line calls one, or the API of someone who is no known service."""
    if _PROVIDER.search(text):
        yield "a provider outside"
    for name in _API.findall(text):
        # Either may be the longer name: `Cart API` is the service `cart`, or `cart-service`.
        if not any(name.lower() in service or service in name.lower() for service in service_names):
            yield f"the API of {name}"


def _hosts(text: str) -> frozenset[str]:
    hosts = set()
    for host in _HOST.findall(text):
        is_api_group = host.endswith(_API_GROUPS) and host != _KUBERNETES_REGISTRY
        if host.split(".", 1)[0] not in _PACKAGES and not is_api_group:
            hosts.add(host)
    return frozenset(hosts)


def _bad_data(lines: Sequence[FailingLine], totals: Mapping[str, int]) -> Iterator[Finding]:
    """Input that cannot be read, and always the same record, file or source: others of its kind are
    read."""
    by_service: dict[str, list[FailingLine]] = defaultdict(list)
    for line in _matching(lines, _BAD_DATA):
        by_service[line.service].append(line)
    for service, service_lines in sorted(by_service.items()):
        n = _count(service_lines)
        if n < ENOUGH_LINES or n < MOST * totals[service]:
            continue
        reason, strength, shared = "record", 0.9, _most_common(service_lines, (_KEYED, _SPOKEN_KEY))
        # No record in common: one producer may send many bad ones.
        if shared is None:
            reason, strength, shared = "source", 0.7, _most_common(service_lines, (_SOURCE,))
        if shared is None:
            continue
        key, value = shared
        phrase = (
            f"{counted(n, 'line')} of {plain(service)} reject input, always {plain(key, 30)} "
            f"{plain(value, 60)}"
        )
        numbers = {"lines": n}
        yield _finding(
            DATA_PROBLEM.name, reason, [service], service_lines, strength, phrase, numbers
        )


def _most_common(
    lines: Sequence[FailingLine], patterns: Sequence[re.Pattern[str]]
) -> tuple[str, str] | None:
    """The key and value that at least 80 % of the lines share."""
    counts: Counter[tuple[str, str]] = Counter()
    for line in lines:
        pairs: set[tuple[str, str]] = set()
        for pattern in patterns:
            pairs.update((key.lower(), value) for key, value in pattern.findall(line.whole))
        for pair in pairs:
            if pair[0] not in _NO_KEYS:
                counts[pair] += line.n
    if not counts:
        return None
    top_pair, times = min(counts.items(), key=lambda item: (-item[1], item[0]))
    return top_pair if times >= 0.8 * _count(lines) else None


def _some(names: Sequence[str], otherwise: str = "services") -> str:
    if not names:
        return otherwise
    shown = ", ".join(plain(name, 60) for name in names[:3])
    return f"{shown} and others" if len(names) > 3 else shown


def _finding(
    kind: str,
    reason: str,
    services: Sequence[str],
    lines: Sequence[FailingLine],
    strength: float,
    phrase: str,
    numbers: Mapping[str, float],
    nodes: Sequence[str] = (),
) -> Finding:
    example = plain(lines[0].text, 120)
    # Every number in a sentence must be known, those in the quoted line too.
    quoted = {}
    for i, digits in enumerate(_NUMBER.findall(f"{phrase} {example}"), start=1):
        quoted[f"quoted_{i}"] = float(digits)
    items = {item for line in lines for item in line.items}
    return Finding(
        id="",
        kind=kind,
        subject=services[0],
        signal="logs",
        onset=min(line.first for line in lines),
        effect=float(_count(lines)),
        effect_unit="lines",
        strength=round(strength, 4),
        sentence=f'{phrase}: "{example}".',
        numbers={**quoted, **numbers},
        evidence=tuple(sorted(items)),
        series={"table": "logs", "service": services[0]},
        details=NoChangeDetails(
            reason=reason, services=tuple(services), nodes=tuple(nodes), bad=True
        ),
    )


_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")
