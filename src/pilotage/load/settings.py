"""What is measured, from where and how often: a YAML file, or a preset."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from pilotage.model.errors import InputError
from pilotage.workloads.fields import Field
from pilotage.workloads.yaml_documents import only_document

# Columns that a query can fill, each per node. Shares are 0..1.
MEASURES = ("cpu", "memory", "receive", "transmit", "connections", "gpu", "gpu_memory", "latency")

# Device names of a node's own network: no loopback, no container ends, bridges or tunnels.
_VIRTUAL = (
    "lo veth.* cali.* lxc.* cilium_.* cni.* docker.* flannel.* antrea.* kube-.* nodelocaldns.* dummy.* br-.* virbr.*"
)
_TUNNELS = "tunl.* vxlan.* geneve.* gre.* wg.* tun.* tap.*"
OWN_NETWORK = f'device!~"{"|".join((_VIRTUAL + " " + _TUNNELS).split())}"'
_INTERFACES = re.compile(r"[A-Za-z0-9_.@:*+?()|-]{1,256}")
PRESETS: dict[str, dict[str, str]] = {
    "node-exporter": {
        "cpu": '1 - avg by (node, instance) (rate(node_cpu_seconds_total{mode="idle"}[RANGE]))',
        "memory": "1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes",
        "receive": "sum by (node, instance) (rate(node_network_receive_bytes_total{INTERFACES}[RANGE]))",
        "transmit": "sum by (node, instance) (rate(node_network_transmit_bytes_total{INTERFACES}[RANGE]))",
        "connections": "node_netstat_Tcp_CurrEstab",
    },
    "dcgm": {
        "gpu": "avg by (node, Hostname, instance) (DCGM_FI_DEV_GPU_UTIL) / 100",
        "gpu_memory": "sum by (node, Hostname, instance) (DCGM_FI_DEV_FB_USED)"
        " / sum by (node, Hostname, instance) (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)",
    },
}
MAX_QUERY = 4096
ADDRESS = "such as http://127.0.0.1:9090"


@dataclass(frozen=True)
class LoadSettings:
    """Of one Prometheus."""

    address: str  # http://127.0.0.1:9090
    queries: dict[str, str] = field(default_factory=lambda: dict(PRESETS["node-exporter"]))  # by measure
    interval_seconds: float = 15.0  # between two rounds of queries
    stale_seconds: float = 60.0  # older than that is as good as not measured
    timeout_seconds: float = 10.0  # of one query
    range_seconds: float = 60.0  # over which rates are taken: RANGE in queries
    labels: tuple[str, ...] = (
        "node",
        "Hostname",
        "kubernetes_node",
        "instance",
    )  # that may name the node; the first counts
    interfaces: str = ""  # of the network, a regular expression; empty: a node's own. INTERFACES in queries
    link_bytes_per_second: float = 1.25e9  # a network that is busy to the full, for the column load
    token_file: Path | None = None
    authority: Path | None = None  # certificates that Prometheus' own is checked against

    def query(self, measure: str) -> str:
        interfaces = f'device=~"{self.interfaces}"' if self.interfaces else OWN_NETWORK
        query = self.queries[measure].replace("INTERFACES", interfaces)
        return query.replace("RANGE", f"{self.range_seconds:g}s")


def preset(address: str, *names: str) -> LoadSettings:
    queries: dict[str, str] = {}
    for name in names:
        if name not in PRESETS:
            raise InputError(f"unknown preset {name!r}", expected=", ".join(PRESETS))
        queries |= PRESETS[name]
    if not _is_address(address):
        raise InputError(f"{address[:100]!r} is no address", field="--prometheus", expected=ADDRESS)
    return LoadSettings(address.rstrip("/"), queries)


def read_load_settings(path: Path) -> LoadSettings:
    """See docs/load.md for the file."""
    root = Field.of(only_document(path))
    known = {
        "address": None,
        "presets": None,
        "queries": None,
        "intervalSeconds": "interval_seconds",
        "staleSeconds": "stale_seconds",
        "timeoutSeconds": "timeout_seconds",
        "rangeSeconds": "range_seconds",
        "linkBytesPerSecond": "link_bytes_per_second",
        "nodeLabels": None,
        "interfaces": None,
        "tokenFile": None,
        "authorityFile": None,
    }
    for key, entry in root.items():
        if key not in known:
            raise entry.unknown("setting", key, known)
    address = root.get("address").text()
    if not _is_address(address):
        raise root.get("address").error(f"{address[:100]!r} is no address", ADDRESS)
    presets = root.get("presets").string_list() if root.get("presets").present else ("node-exporter",)
    queries: dict[str, str] = {}
    for name in presets:
        if name not in PRESETS:
            raise root.get("presets").unknown("preset", name, PRESETS)
        queries |= PRESETS[name]
    for measure, entry in root.get("queries").items():
        if measure not in MEASURES:
            raise entry.unknown("measure", measure, MEASURES)
        query = entry.text()
        if not 0 < len(query) <= MAX_QUERY:
            raise entry.error(f"{len(query)} characters", f"1 to {MAX_QUERY}")
        queries[measure] = query
    settings = LoadSettings(address.rstrip("/"), queries)
    for key, number in known.items():
        if number is not None and root.get(key).present:
            settings = replace(settings, **{number: _seconds(root.get(key))})  # type: ignore[arg-type]
    if root.get("nodeLabels").present:
        settings = replace(settings, labels=tuple(root.get("nodeLabels").string_list()))
    if root.get("interfaces").present:
        interfaces = root.get("interfaces").text()
        if _INTERFACES.fullmatch(interfaces) is None:
            raise root.get("interfaces").error(f"{interfaces[:60]!r} names none", "such as eth0 or eth0|bond.*")
        settings = replace(settings, interfaces=interfaces)
    for key, file in (("tokenFile", "token_file"), ("authorityFile", "authority")):
        if root.get(key).present:
            settings = replace(settings, **{file: path.parent / root.get(key).text()})  # type: ignore[arg-type]
    return settings


def _seconds(entry: Field) -> float:
    value = entry.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.1 <= value <= 1e12:
        raise entry.wrong_kind("a number of at least 0.1")
    return float(value)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        named = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a bracket that is not closed, a port that is no number
        return False
    return bool(named) and not (parts.query or parts.fragment or parts.username)
