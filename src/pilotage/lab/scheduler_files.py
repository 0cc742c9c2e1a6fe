"""A configuration of kube-scheduler for a lab: profiles, plugins, extenders. Its connection is the lab's own."""

from __future__ import annotations

from pathlib import Path

from pilotage.model.errors import InputError
from pilotage.workloads.yaml_documents import read_documents

KIND, GROUP = "KubeSchedulerConfiguration", "kubescheduler.config.k8s.io/"
MAX_BYTES = 1024 * 1024


def read_scheduler_file(path: Path) -> str:
    """The text of the file, when it is one such configuration; what stands in it is for kube-scheduler to judge."""
    found = list(read_documents(path, max_bytes=MAX_BYTES))
    content = found[0].content if len(found) == 1 else None
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise InputError(f"is not one document of kind {KIND}", file=path, expected=f"kind: {KIND}")
    if not str(content.get("apiVersion", "")).startswith(GROUP):
        raise InputError("of another API", file=path, field="apiVersion", expected=f"{GROUP}v1")
    return path.read_text()
