"""A job of short commands, for runs that are about coordination and not about CPU."""

from __future__ import annotations

from pathlib import Path

SERIES = 260


def write_job(
    place: Path,
    tasks: dict[str, str],
    *,
    name: str = "small",
    rows: int = 40,
    extra: str = "",
) -> Path:
    """A job whose tasks run shell lines; {size} is filled in."""
    measured = [
        f"{task}, {size}, {share}, {0.01 + size / share}"
        for task in tasks
        for size in (10, 20, 30, 40, 50)
        for share in (100, 200, 300, 400)
    ]
    (place / "profile.csv").write_text("\n".join(["Task Name, Workload Size, CPU Shares, Duration", *measured]) + "\n")
    lines = [
        "apiVersion: pilotage/v1",
        "kind: GangJob",
        f"name: {name}",
        f"budget: {{total: {100 * len(tasks) + 300}m, least: 100m, step: 50m}}",
        "penalty: 0.05",
        "profile: profile.csv",
        f"rows: {rows}",
        "horizon: 5",
        "tasks:",
    ]
    for k, (task, line) in enumerate(tasks.items()):
        values = [f"2025-01-{1 + h // 24:02d} {h % 24:02d}:00:00,{(h * (k + 3)) % 24 + k}" for h in range(SERIES)]
        (place / f"{task}.csv").write_text("\n".join(["timestamp,value", *values]) + "\n")
        lines += [f"  - name: {task}", f"    series: {task}.csv", "    command: [/bin/sh, -c, " + repr(line) + "]"]
    path = place / "job.yaml"
    path.write_text("\n".join(lines) + "\n" + extra)
    return path
