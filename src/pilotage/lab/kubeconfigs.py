"""kubeconfig files of a lab, one per user, readable by their owner alone."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from pilotage.lab.certificates import Identity, write_private


def write_kubeconfig(path: Path, name: str, server: str, authority: bytes, who: Identity) -> Path:
    """JSON is YAML, and needs no quoting rules."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": _encoded(authority)}}],
        "users": [
            {
                "name": name,
                "user": {
                    "client-certificate-data": _encoded(who.certificate),
                    "client-key-data": _encoded(who.key),
                },
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    return write_private(path, json.dumps(content, indent=1).encode())


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
