"""The faults of what services use: databases, limited resources, providers outside, clouds, and
schedulers of batch jobs.
"""

from __future__ import annotations

from faultline.analysis.kinds.state_fault import Depth, state_fault

# Databases: what a cloud says of them, and what their own server shows.

DATABASES = (
    state_fault(
        "database_storage_full",
        0.97,
        Depth.SETTING,
        "is out of storage",
        "{object} is out of storage: {value}",
        less="{object} is out of storage",
        step="Give {subject} more storage, and find out what filled it.",
    ),
    state_fault(
        "database_unavailable",
        0.95,
        Depth.SETTING,
        "is not available",
        "{object} is not available: its status is {value}",
        less="{object} is not available",
        step="Read the events of {subject}, and start or restore it.",
    ),
    state_fault(
        "database_failed_over",
        0.9,
        Depth.SETTING,
        "failed over",
        "{object} failed over: {value}",
        less="{object} failed over",
        step="Check that clients of {subject} reconnect to the new writer, and why the old one "
        "failed.",
    ),
    state_fault(
        "database_restarted",
        0.85,
        Depth.SETTING,
        "was restarted",
        "{object} was restarted: {value}",
        less="{object} was restarted",
        step="Find out who or what restarted {subject}, and whether its clients reconnected.",
    ),
    state_fault(
        "database_in_maintenance",
        0.7,
        Depth.SETTING,
        "is under maintenance",
        "{object} is under maintenance: {value}",
        less="{object} is under maintenance",
        step="Wait for the maintenance of {subject}, or move its window.",
    ),
    state_fault(
        "database_access_changed",
        0.85,
        Depth.SETTING,
        "had its credentials or security group changed",
        "Access to {object} was changed: {value}",
        less="Access to {object} was changed",
        step="Compare the credentials and security groups of {subject} with what its clients use.",
    ),
    state_fault(
        "database_parameters_pending",
        0.5,
        Depth.SETTING,
        "does not run with the parameters it is set to",
        "{object} does not run with the parameters it is set to: {value}",
        less="{object} does not run with the parameters it is set to",
        step="Compare the parameter group of {subject} before and after, and restart it in a quiet "
        "hour.",
    ),
    state_fault(
        "database_lagging",
        0.75,
        Depth.SETTING,
        "does not keep up with its primary",
        "{object} does not keep up with its primary: {value}",
        less="{object} does not keep up with its primary",
        step="Find out what {subject} waits for, and read from the writer meanwhile.",
    ),
    state_fault(
        "sessions_blocked",
        0.95,
        Depth.SETTING,
        "has sessions that wait for a lock",
        "{object} has sessions that wait for a lock: {value}",
        less="{object} has sessions that wait for a lock",
        step="Find out what the session that holds the lock on {subject} is doing, and end it if "
        "nobody needs it.",
        logged_as=("lock_timeout",),
    ),
    state_fault(
        "transaction_held_open",
        0.5,
        Depth.SETTING,
        "has a transaction that stays open",
        "{object} has a transaction that stays open: {value}",
        less="{object} has a transaction that stays open",
        step="Find out who keeps the transaction on {subject} open: it keeps locks and old rows.",
    ),
    state_fault(
        "statements_slower",
        0.8,
        Depth.INSTANCE,
        "runs statements more slowly than before",
        "{object} runs a statement more slowly than before: {value}",
        less="{object} runs statements more slowly than before",
        step="Explain the statement on {subject}: a missing index, old statistics, more rows.",
    ),
    state_fault(
        "commands_slow",
        0.8,
        Depth.SETTING,
        "is held up by slow commands",
        "{object} is held up by slow commands: {value}",
        less="{object} is held up by slow commands",
        step="Find out who sends these commands to {subject}: each one delays all others.",
    ),
    state_fault(
        "takes_over_database",
        0.95,
        Depth.SETTING,
        "takes over a database that others need",
        "{object} takes {value}",
        less="{object} takes over a database that others need",
        step="Stop {subject} or slow it down, then run it at another time or against a replica.",
    ),
    state_fault(
        "taken_over_by_user",
        0.85,
        Depth.INSTANCE,
        "is taken over by one user",
        "{object} is taken over by one user: {value}",
        less="{object} is taken over by one user",
        step="Find out who connects to {subject} as that user, and stop it or slow it down.",
    ),
    state_fault(
        "database_deadlocks",
        0.6,
        Depth.INSTANCE,
        "has transactions in deadlock",
        "{object} has transactions in deadlock: {value}",
        less="{object} has transactions in deadlock",
        step="Read which two statements {subject} logged, and take locks in one order.",
    ),
    state_fault(
        "writes_refused",
        0.95,
        Depth.SETTING,
        "refuses writes",
        "{object} refuses writes: {value}",
        less="{object} refuses writes",
        step="Free what {subject} is out of, or send writes to the member that takes them.",
        logged_as=("database_read_only",),
    ),
    state_fault(
        "wraparound_near",
        0.6,
        Depth.SETTING,
        "is running out of transaction IDs",
        "{object} is running out of transaction IDs: {value}",
        less="{object} is running out of transaction IDs",
        step="Vacuum the oldest tables of {subject}, and end what keeps old rows: transactions, "
        "slots, prepared transactions.",
    ),
    state_fault(
        "replication_log_kept",
        0.5,
        Depth.SETTING,
        "keeps its log for a replica that does not read it",
        "{object} keeps its log for a replica that does not read it: {value}",
        less="{object} keeps its log for a replica that does not read it",
        step="Bring the reader of the slot of {subject} back, or drop the slot before the disk is "
        "full.",
    ),
    state_fault(
        "rows_not_vacuumed",
        0.35,
        Depth.SETTING,
        "holds many dead rows",
        "{object} holds many dead rows: {value}",
        less="{object} holds many dead rows",
        step="Find out why vacuum does not keep up on {subject}: long transactions, its limits.",
    ),
    state_fault(
        "cluster_partitioned",
        0.95,
        Depth.SETTING,
        "is split into parts that do not see each other",
        "{object} is split into parts that do not see each other: {value}",
        less="{object} is split into parts that do not see each other",
        step="Mend the network between the nodes of {subject}, and decide which part's data stays.",
    ),
    state_fault(
        "partitions_without_leader",
        0.95,
        Depth.SETTING,
        "has partitions without a leader",
        "{object} has partitions without a leader: {value}",
        less="{object} has partitions without a leader",
        step="Bring the brokers back that hold replicas of {subject}: until then nobody reads or "
        "writes these partitions.",
    ),
    state_fault(
        "partitions_under_replicated",
        0.5,
        Depth.SETTING,
        "has partitions with replicas out of sync",
        "{object} has partitions with replicas out of sync: {value}",
        less="{object} has partitions with replicas out of sync",
        step="Find out why replicas of {subject} fall behind: a broker that is down, a slow disk, "
        "the network.",
    ),
)


# What runs out: the processor, memory, disks, connections and queues that exporters measure.

SATURATION = (
    state_fault(
        "cpu_throttled",
        0.95,
        Depth.INSTANCE,
        "is throttled by its CPU limit",
        "{object} is throttled by its CPU limit: {value}",
        less="{object} is throttled by its CPU limit",
        step="Raise or remove the CPU limit of {subject}, or find out what uses more CPU.",
        rises_with_load=True,
        logged_as=("cpu_throttled",),
    ),
    state_fault(
        "memory_near_limit",
        0.5,
        Depth.INSTANCE,
        "has almost no memory left",
        "{object} has almost no memory left: {value}",
        less="{object} has almost no memory left",
        step="Find out what fills the memory of {subject}, and raise its limit if that is right.",
    ),
    state_fault(
        "cache_flushed",
        0.95,
        Depth.SETTING,
        "was flushed",
        "{object} was flushed: {value}",
        less="{object} was flushed",
        step="Let {subject} fill again under less load, and find out who flushed it.",
    ),
    state_fault(
        "pool_exhausted",
        0.85,
        Depth.INSTANCE,
        "is out of connections",
        "{object} is nearly out of connections: {value}",
        less="{object} is out of connections",
        step="Find out who holds the connections of {subject}: slow queries, leaks, more clients.",
        waits=True,
        rises_with_load=True,
        logged_as=(
            "pool_exhausted",
            "hikari_pool_exhausted",
            "sqlalchemy_pool_exhausted",
            "postgres_too_many_connections",
            "mysql_too_many_connections",
        ),
    ),
    state_fault(
        "publishing_blocked",
        0.9,
        Depth.SETTING,
        "blocks its publishers",
        "{object} blocks its publishers: {value}",
        less="{object} blocks its publishers",
        step="Free memory or disk of {subject}, and find out which queue grew.",
    ),
    state_fault(
        "queue_without_consumers",
        0.85,
        Depth.EFFECT,
        "has messages but no consumer",
        "{object} has {value} and no consumer",
        less="{object} has messages and no consumer",
        step="Find out why the consumers of {subject} are gone.",
    ),
    state_fault(
        "consumers_behind",
        0.6,
        Depth.EFFECT,
        "is far behind on its messages",
        "{object} is behind: {value}",
        less="{object} is far behind on its messages",
        step="Check the consumers of {subject}: their errors, their speed, their number.",
        rises_with_load=True,
    ),
    state_fault(
        "partition_behind",
        0.7,
        Depth.INSTANCE,
        "is far behind on one partition",
        "{object} is far behind on one partition: {value}",
        less="{object} is far behind on one partition",
        step="Compare what is written to that partition with the others: either one key fills it, "
        "which more consumers of {subject} do not help, or the consumer that reads it is stuck.",
        rises_with_load=True,
    ),
    state_fault(
        "requests_throttled",
        0.85,
        Depth.INSTANCE,
        "rejects requests beyond its capacity",
        "{object} rejects requests beyond its capacity: {value}",
        less="{object} rejects requests beyond its capacity",
        step="Raise the capacity or quota of {subject}, or find out who asks more of it, or of one "
        "key or shard.",
        rises_with_load=True,
    ),
    state_fault(
        "cpu_exhausted",
        0.85,
        Depth.INSTANCE,
        "is out of CPU",
        "{object} is out of CPU: {value}",
        less="{object} is out of CPU",
        step="Find out which commands keep {subject} busy, and give it more or larger nodes.",
        rises_with_load=True,
    ),
    state_fault(
        "ports_exhausted",
        0.9,
        Depth.INSTANCE,
        "is out of ports for new connections",
        "{object} is out of ports for new connections: {value}",
        less="{object} is out of ports for new connections",
        step="Find out which destination {subject} has most connections to, reuse connections, and "
        "add addresses or gateways.",
    ),
    state_fault(
        "dead_letters",
        0.6,
        Depth.EFFECT,
        "has messages that its consumers gave up on",
        "{object} has {value} that its consumers gave up on",
        less="{object} has messages that its consumers gave up on",
        step="Read a message of the dead-letter queue of {subject}, and the errors of its "
        "consumers.",
    ),
)


# Providers outside: what their own status pages report.

STEP = (
    "Follow the incident on the status page. Until it is over, fail over or switch off what needs "
    "{subject}."
)

PROVIDERS = (
    state_fault(
        "provider_outage",
        0.45,
        Depth.SETTING,
        "reports an outage on its status page",
        "{object} reports an outage: {value}",
        less="{object} reports an outage",
        step=STEP,
    ),
    state_fault(
        "provider_degraded",
        0.3,
        Depth.SETTING,
        "reports a smaller incident on its status page",
        "{object} reports an incident: {value}",
        less="{object} reports an incident",
        step=STEP,
    ),
)
"""A status page speaks for a whole provider, and most of its users notice nothing. That is why both
weigh less than a cloud's own word about one account (`provider_incident`): a service that shows a
fault itself comes first, and a provider only where failing lines name it."""


# Machines, node groups and services of a cloud.

CLOUD = (
    state_fault(
        "machine_impaired",
        0.9,
        Depth.SETTING,
        "runs on a machine that fails its checks",
        "{object} fails its checks: {value}",
        less="{object} fails its checks",
        step="Replace the machine of {subject}, and read its system log.",
    ),
    state_fault(
        "machine_lost",
        0.85,
        Depth.SETTING,
        "lost a machine",
        "{object} lost a machine: {value}",
        less="{object} lost a machine",
        step="Find out who or what stopped the machine of {subject}, and whether it was replaced.",
    ),
    state_fault(
        "launch_failed",
        0.9,
        Depth.SETTING,
        "cannot start new machines",
        "{object} cannot start a new machine: {value}",
        less="{object} cannot start new machines",
        step="Check the quotas, the launch template and the capacity of the zones of {subject}.",
    ),
    state_fault(
        "node_group_degraded",
        0.85,
        Depth.SETTING,
        "has an unhealthy cluster or node group",
        "{object} is unhealthy: {value}",
        less="{object} is unhealthy",
        step="Repair what the health issue of {subject} names: its roles, subnets, quotas, "
        "templates.",
    ),
    state_fault(
        "provider_incident",
        0.8,
        Depth.SETTING,
        "uses a cloud service with an open incident",
        "{object} is open: {value}",
        less="{object} is open",
        step="Follow the event on the provider's page, and move {subject} to another zone or "
        "region if it can run there.",
    ),
)


# Jobs of a scheduler of batch jobs: how they end other than by their own fault.

BATCH = (
    state_fault(
        "job_lost_node",
        0.85,
        Depth.INSTANCE,
        "lost one of its nodes",
        "{object} ended because its node {value} failed",
        less="{object} ended because one of its nodes failed",
        step="Read why the node of {subject} failed, and leave it out when you start the job "
        "again.",
    ),
    state_fault(
        "job_out_of_time",
        0.9,
        Depth.INSTANCE,
        "ran into its time limit",
        "{object} was ended at its time limit of {value}",
        less="{object} was ended at its time limit",
        step="Compare the time limit of {subject} with how long it needs, and resume from its "
        "last checkpoint.",
    ),
    state_fault(
        "job_preempted",
        0.85,
        Depth.SETTING,
        "was preempted by other work",
        "{object} was preempted: {value}",
        less="{object} was preempted",
        step="Find out which work took the place of {subject}, and whether its priority is right.",
    ),
    state_fault(
        "job_cancelled",
        0.8,
        Depth.SETTING,
        "was cancelled",
        "{object} was cancelled by {value}",
        less="{object} was cancelled",
        step="Ask who cancelled {subject} and why.",
    ),
    state_fault(
        "job_suspended",
        0.85,
        Depth.SETTING,
        "is suspended",
        "{object} is suspended: {value}",
        less="{object} is suspended",
        step="Find out who or what suspended {subject}, and resume it.",
    ),
    state_fault(
        "job_requeued",
        0.6,
        Depth.EFFECT,
        "was started again by its scheduler",
        "{object} was started again: {value}",
        less="{object} was started again",
        step="Read why the attempt of {subject} before this one ended.",
    ),
)
