"""A Ray cluster on loopback: a program apart, for the Python below .tools/ray.

    python ray_nodes.py PORT FOLDER KILLED ENDED     serves the dashboard there, keeps sockets there

The node KILLED is killed, the node ENDED is asked to end, and the head goes on. `ray start` would
listen on the address that other machines reach; the cluster that Ray's own tests use does not.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

SMALL = {"num_cpus": 1, "object_store_memory": 80_000_000, "node_ip_address": "127.0.0.1"}
"""Ray takes no less than 75 MiB for objects."""


def main() -> None:
    """Serve until the end."""
    from ray.cluster_utils import Cluster  # type: ignore[import-not-found]

    port, folder, killed, ended = sys.argv[1:]
    head: dict[str, Any] = {"node_name": "head", "include_dashboard": True, "temp_dir": folder}
    shown = {"dashboard_host": "127.0.0.1", "dashboard_port": int(port)}
    # A port that is free, and nothing that the tests do not ask.
    lean = {"dashboard_agent_listen_port": None, "no_monitor": True, "include_log_monitor": False}
    cluster = Cluster(initialize_head=True, head_node_args={**SMALL, **head, **shown, **lean})
    for name in (killed, ended):
        node = cluster.add_node(**SMALL, node_name=name)
        cluster.remove_node(node, allow_graceful=name == ended)
    threading.Event().wait()


if __name__ == "__main__":
    main()
