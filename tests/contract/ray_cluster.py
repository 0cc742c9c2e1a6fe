"""Two Ray nodes on this machine, reachable from it alone: prints the address, ends with its standard input."""

from __future__ import annotations

import sys
from typing import Any

from ray.cluster_utils import Cluster

LOOPBACK: dict[str, Any] = {"node_ip_address": "127.0.0.1", "num_cpus": 1, "include_dashboard": False}

if __name__ == "__main__":
    cluster = Cluster(initialize_head=True, head_node_args=LOOPBACK)
    cluster.add_node(**LOOPBACK)
    cluster.wait_for_nodes()
    print(cluster.address, flush=True)
    sys.stdin.read()
    cluster.shutdown()  # type: ignore[no-untyped-call]
