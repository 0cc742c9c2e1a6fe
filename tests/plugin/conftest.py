"""A control plane whose kube-scheduler has the score plugin; `pilotage lab build --plugin` must have run before."""

from __future__ import annotations

import os
import shutil
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from lab.labs import a_lab
from pilotage.lab.certificates import Authority
from pilotage.lab.components import LabSettings
from pilotage.lab.controlplane import Lab, in_lab
from pilotage.lab.nodes import add
from pilotage.lab.plugin_figures import plugin_profiles
from pilotage.model.clock import SystemClock
from pilotage.model.cluster import Node
from plugin.faulty import Faulty, serving

# Of different sizes, so that no two are equally good for a pod; each could take all pods of a fault.
NODES = tuple(Node(f"node-{i}", 8_000 + 1_700 * i, (32 + 5 * i) * 2**30, pods=5_000) for i in range(8))


@dataclass(frozen=True)
class Beside:
    """A lab, the socket that its profiles `pilotage` and `pilotage-alone` ask, the TLS service of `pilotage-tls`."""

    lab: Lab
    socket: Path
    tls: ssl.SSLContext  # of the service of pilotage-tls, which always runs
    expired: tuple[Path, Path]
    valid: tuple[Path, Path]


@pytest.fixture(scope="session")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    directory = Path(tempfile.mkdtemp(prefix="plugin-"))  # short: the path of a socket has 107 characters at most
    now = SystemClock().wall()
    authorities = {"expired": Authority("past", now - timedelta(days=400)), "valid": Authority("now", now)}
    (directory / "ca.crt").write_bytes(b"".join(one.pem for one in authorities.values()))
    pairs = {}
    for name, authority in authorities.items():
        identity = authority.issue("service")
        pairs[name] = (directory / f"{name}.crt", directory / f"{name}.key")
        for path, data in zip(pairs[name], (identity.certificate, identity.key), strict=True):
            path.write_bytes(data)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pairs["valid"])
    try:
        with serving(Faulty(), context) as port:
            settings = LabSettings(plugin=True, scheduler_file=_profiles(directory, port))
            with a_lab(tmp_path_factory.mktemp("labs"), settings, f"plugin-{os.getpid()}") as lab:
                in_lab(lab, lambda client: add(client, NODES))
                yield Beside(lab, directory / "s", context, pairs["expired"], pairs["valid"])
    finally:
        shutil.rmtree(directory)


def _profiles(directory: Path, port: int) -> str:
    """Those of the documentation, and one that asks by TLS and enables Score alone."""
    content = yaml.safe_load(plugin_profiles(directory / "s"))
    for profile, deadline in zip(content["profiles"][1:], ("1s", "5s"), strict=True):  # the machine may be busy
        profile["pluginConfig"][0]["args"]["deadline"] = deadline
    args = {"url": f"https://127.0.0.1:{port}", "caFile": str(directory / "ca.crt"), "deadline": "1s"}
    content["profiles"].append(
        {
            "schedulerName": "pilotage-tls",
            "plugins": {"score": {"enabled": [{"name": "Pilotage", "weight": 100}]}},
            "pluginConfig": [{"name": "Pilotage", "args": args}],
        }
    )
    return yaml.safe_dump(content)
