"""Pods that a kubelet refused for want of room, which two schedulers may have given away twice.

A watch of unfinished pods cannot tell: a pod that leaves it is sent as it was before, without the reason. So those that
failed are watched too, and nothing is kept of them but which were told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pilotage.kube.client import Json

FAILED = {"fieldSelector": "status.phase=Failed,spec.nodeName!="}
OUT_OF = "OutOf"  # OutOfcpu, OutOfmemory, OutOfpods, ...: status.reason of a pod that its kubelet refused


@dataclass
class RefusedPods:
    """Follows the pods that FAILED selects. Each is told once; those of a list were refused before anybody looked."""

    tell: Callable[[str, str], None]  # the pod, and why
    _known: set[str] = field(default_factory=set)  # uids of refused pods that are still there

    def read(self, found: Json) -> str:
        """Its uid; "" for a pod that failed otherwise, of which there may be many."""
        return str(found["metadata"]["uid"]) if _reason(found).startswith(OUT_OF) else ""

    def listed(self, objects: list[Json]) -> None:
        self.listed_as_read([*map(self.read, objects)])

    def listed_as_read(self, objects: list[str]) -> None:
        self._known = {uid for uid in objects if uid}

    def changed(self, found: Json) -> None:
        uid = self.read(found)
        if uid and uid not in self._known:
            self._known.add(uid)
            metadata = found["metadata"]
            self.tell(f"{metadata['namespace']}/{metadata['name']}", _reason(found))

    def deleted(self, last: Json) -> None:
        self._known.discard(last["metadata"]["uid"])


def _reason(found: Json) -> str:
    return str((found.get("status") or {}).get("reason") or "")
