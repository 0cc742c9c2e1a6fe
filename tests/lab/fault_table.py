"""What came of each fault of the service, as a table where one is asked for: experiments/service-faults/run."""

from __future__ import annotations

import csv
import os
from collections import Counter
from dataclasses import asdict, dataclass, fields
from pathlib import Path

TABLE = os.environ.get("PILOTAGE_FAULT_TABLE")  # a file; rows are added to it
RECOVERY_SECONDS = 10.0  # from the service's return until its scores count again


def fault_pods(default: int) -> int:
    """For each fault: few in tests, 1,000 for the table."""
    return int(os.environ.get("PILOTAGE_FAULT_PODS", default))


@dataclass(frozen=True)
class Row:
    """One fault, and what asked the service."""

    kind: str  # plugin, extender-score, extender-gpu
    fault: str
    pods: int
    unschedulable: int  # pods that were called so though there was room
    restarts: int  # of kube-scheduler
    fallbacks: str  # pods that were decided without the service, by reason
    placed_without_device: int  # pods with a share of a GPU and no gpu-index
    recovery_seconds: float


def reasons(counted: Counter[str]) -> str:
    return " ".join(f"{name}={count}" for name, count in sorted(counted.items()) if count)


def note(row: Row, table: str | None = TABLE) -> None:
    if table is None:
        return
    path = Path(table)
    with path.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, [one.name for one in fields(Row)], lineterminator="\n")
        if stream.tell() == 0:
            writer.writeheader()
        writer.writerow(asdict(row) | {"recovery_seconds": f"{row.recovery_seconds:.2f}"})
