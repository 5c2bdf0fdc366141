"""The class of a signal by words: of a metric's name with its selectors, of a title, of a sentence.

Rules differ from the series that a case holds: their names come with the selectors that decide
what is counted (`code=~"5.."`), and their titles are written by people. Stronger words come first:
"disk read errors" are about a disk, "failed backups" about a job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from analysis.kinds.signals import SignalClass

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS = re.compile(r"[^a-z0-9]+")
LONGEST_TEXT = 600
"""Characters of a text that are looked at: rules say what they are about in their first words."""

_WORDS: Sequence[tuple[SignalClass, str]] = (
    # Somebody changed a setting: nothing that a signal would show.
    (SignalClass.OTHER, r"changes_detected|(nacl|config|group|policy|gateway|table)_change\w*"),
    (
        SignalClass.CERTIFICATE,
        r"certs?|certificates?|x509|ocsp|not_after|(ssl|tls)_expir\w*|secs_until_expiry",
    ),
    (SignalClass.GPU, r"gpus?|dcgm|nvidia|nvlink|xid_err\w*"),
    (
        SignalClass.HARDWARE,
        r"temperatures?|temp_celsius|fans?|ipmi|sensors?|voltage|psu|power_(supply|unit)|edac"
        r"|battery|light_level|hardware_(fail|err|health|status)\w*|smartctl_device_temperature|overheat\w*",
    ),
    (
        SignalClass.JOB,
        r"backups?(?!_servers)|cronjobs?|cron|kube_job|last_(backup|restore|trigger|run|success\w*)|velero|restores?",
    ),
    (
        SignalClass.RESTARTS,
        r"restart(s|ed|ing)?|reboot(s|ed)?|crash_?loop\w*|start_time|boot_time|panics?"
        r"|crash(es|ed|ing)",
    ),
    (
        SignalClass.MEMORY,
        r"oom|oom_?kill\w*|out_of_memory|memory_pressure|page_?faults?|pgmajfault|paging",
    ),
    (
        SignalClass.NETWORK,
        r"(network|net|nic|interface|bond|link|rx|tx|tunnel)_([a-z0-9]+_)?(err[a-z]*|drop[a-z]*)"
        r"|(receive|transmit)_(err[a-z]*|drop[a-z]*)|packets?(_(\w+_)?(loss|drop\w*))?|retrans\w*|conntrack",
    ),
    (
        SignalClass.DISK,
        r"disks?|inodes?|fsync|filesystems?|file_system|fs_(used|free|avail|usage|capacity)\w*"
        r"|fs_?capacity\w*|zfs|zpool|raid|iops|volume_stats|smartctl|ssd|wear\w*|free_storage\w*"
        r"|storage_(space|percent|used|free|usage)|free_space|tablespace|ebs|out_of_space"
        r"|burst_credit\w*|logical_disk|missing_?blocks|persistent_?volume\w*",
    ),
    (
        SignalClass.AVAILABILITY,
        r"status_?check\w*|health_?check\w*|unhealthy\w*|heartbeats?|writes?_blocked|outage",
    ),
    (SignalClass.JOB, r"jobs?_(\w+_)?fail\w*|fail\w*_(\w+_)?jobs?|job_is_failing"),
    (SignalClass.CPU, r"cfs_throttled\w*|cpu_(\w+_)?throttl\w*|throttling"),
    (
        SignalClass.ERRORS,
        r"err|errs|errors?|deadline_?exceeded|resource_?exhausted|data_?loss|servfail|fail|fails|failed|failing|failures?|exceptions?|fatal|5xx|4xx|429"
        r"|4(0[013489]|29)|50[0234]|[45]_?xx|percentage_?5_?xx|retr(y|ies)|missed|reject\w*|refused|denied|drop|drops|dropped"
        r"|dropping|timeouts?|timed_out|abort\w*|corrupt\w*|discard\w*|unroutable|invalid"
        r"|violations?|last_reload_success\w*|reload_fail\w*|declined|throttled_(req\w*|ev\w*)"
        r"|throttled|unavailables|circuit_?breaker|conflicts?|deadlocks?|expired_message\w*"
        r"|budget_?burn|burn_rate|error_budget|bad_gateway|misses_fatal|unsuccessful"
        r"|probes_failed\w*|tripped",
    ),
    (
        SignalClass.LATENCY,
        r"latency|latencies|slow|slower|duration|durations|response_time|rtt|round_trip|maxwait"
        r"|wait_time|elapsed|ttft|ttfb|step_time|p(50|75|90|95|99|999)|(50|75|90|95|99)(th)?_?percentile"
        r"|(request|processing|process|query|read|write|connect|execution|renew|revoke|response"
        r"|service|search|fetch|scrape|evaluation|sync|commit|round_trip|e2e|load)_time\w*"
        r"|latency_\w+|\w*latency|taking_(too_)?long",
    ),
    (
        SignalClass.CPU,
        r"cpu|cpus|vcpus?|cpu_\w+|\w+cpu|load(1|5|15)|load_average|system_load|iowait|steal"
        r"|throttling|context_switch\w*|ctxt|dtu\w*|cores|nano_?cores",
    ),
    (
        SignalClass.MEMORY,
        r"mem|memory|heap|rss|swap|working_?set|gc|garbage|evict\w*|allocated_objects|ram"
        r"|\w*memory\w*|mem_\w+|buffer_pool|maxmemory",
    ),
    (
        SignalClass.QUEUE,
        r"queues?|queued|queueing|queuing|lag|lags|lagging|backlog|unack\w*|behind|consumer_\w*lag"
        r"|replication_delay|oldest|staleness|dead_?letter\w*|replica_lag|\w+lag|queue_\w+|starving"
        r"|starvation|\w*hints|pending_(tasks|compactions|messages)|uncommitted\w*|undelivered|unprocessed",
    ),
    (
        SignalClass.CONNECTIONS,
        r"connections?|conns?|cx_active|threads_connected|sessions?"
        r"|connected_clients|pgbouncer_pools\w*|(conn|worker|object|buffer)_pool|threads?|thread_pool|file_descriptors?|fds?|filefd|open_files"
        r"|open_os_files|tickets?|sockets?|slots?|cursors?|netstat|max_connections|goroutines"
        r"|open_fds|descriptors|workers?|busy",
    ),
    (
        SignalClass.QUEUE,
        r"pending\w*|waiting|waits?|blocked|stuck|delay|delayed|in_?flight|outstanding|backpressure|deferred"
        r"|buffered|spool|not_caught_up",
    ),
    (
        SignalClass.AVAILABILITY,
        r"up|down|ready|not_ready|health\w*|unhealthy|availab\w*|unavailab\w*|absent|missing"
        r"|offline|alive|dead(?!_tup|_letter)|reachable|unreachable|replicas?|mismatch\w*|misscheduled"
        r"|leader\w*|quorum|status_check\w*|not_responding|responding|uptime|target_missing|lost"
        r"|read_?only|stopped|stopping|unstable|disconnected|not_connected|discovered|apdex|success\w*"
        r"|members?|degraded|underreplicated|under_replicated|stalled|rollout"
        r"|not_active|not_running|(io|sql)_running|status_phase|isready|split_brain|has_no"
        r"|unschedulable|sealed|unsealed|sync(ed|_status)?|cluster_status|is_red|failover|primary"
        r"|inconsistent",
    ),
    (
        SignalClass.NETWORK,
        r"network|net|nic|bandwidth|rx|tx|egress|ingress_bytes|bytes_(in|out|sent|received)\w*"
        r"|(sent|received|receive|transmit|transmitted|in|out)_bytes|rst|dns|vpn|bgp|wireguard"
        r"|interface|nat_gateway|probe_count",
    ),
    (
        SignalClass.DISK,
        r"storage|volumes?|space|io|write_throughput|read_throughput|compactions?|size_bytes",
    ),
    (
        SignalClass.TRAFFIC,
        r"requests?|rps|qps|query|read_rate|write_rate|tps|traffic|throughput|ops|operations?|calls?|invocations?|queries"
        r"|transactions|commits?|xact_commit|messages?|publish\w*|ingest\w*|sample_rate",
    ),
    (
        SignalClass.LIMIT,
        r"quotas?|limits?|capacity|utili[sz]ation|pressure|saturat\w*|exhaust\w*|overcommit\w*"
        r"|usage|max|credits?|hard|full|cardinality|near_max|too_many",
    ),
)
_PATTERNS = tuple(
    (signal_class, re.compile(rf"_(?:{words})(?=_)")) for signal_class, words in _WORDS
)


def class_of(text: str) -> SignalClass:
    """The class that the text's strongest word speaks of; OTHER where none is known."""
    return next(classes_of(text), SignalClass.OTHER)


def classes_of(text: str) -> Iterator[SignalClass]:
    """Every class that the text speaks of, the strongest word first."""
    words = normalized(text)
    for signal_class, pattern in _PATTERNS:
        if pattern.search(words):
            yield signal_class


def says(text: str, signal_class: SignalClass) -> bool:
    """Whether any word of the text speaks of the class."""
    return signal_class in classes_of(text)


@lru_cache(maxsize=1024)
def normalized(text: str) -> str:
    """The words in small letters, each between two underscores."""
    apart = _CAMEL.sub("_", text[:LONGEST_TEXT]).lower()
    return f"_{_SEPARATORS.sub('_', apart).strip('_')}_"
