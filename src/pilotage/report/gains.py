"""What moving pods gained and cost: each policy with consolidation against itself without."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean

from pilotage.report.markup import Cell, table, text
from pilotage.report.metrics import number, signed
from pilotage.report.savings import Saving
from pilotage.report.section import Section
from pilotage.sim.statistics import interval

MARK = " +"  # between the name of a policy and the method by which its pods are moved


@dataclass(frozen=True, slots=True)
class Gain:
    """Of one policy, means over the seeds."""

    saving: Saving  # capacity kept busy more than without moving pods, paired by seed
    moved_pods: float
    moved_gpus: float
    moved_gpu_hours: float | None

    @property
    def cost(self) -> str:
        hours = "" if self.moved_gpu_hours is None else f", {number(self.moved_gpu_hours, 1)} GPU hours run before"
        return f"{number(self.moved_pods, 0)} pods moved ({number(self.moved_gpus, 1)} GPUs{hours})"


def gains_of(section: Section) -> list[Gain]:
    pairs = [(policy, policy.rpartition(MARK)[0]) for policy in section.policies if MARK in policy]
    return [_gain(section, moved, plain) for moved, plain in pairs if plain in section.policies]


def _gain(section: Section, moved: str, plain: str) -> Gain:
    with_moves, without = section.runs_of(moved), section.runs_of(plain)
    metric, share = section.main_metric, section.capacity / 100
    found = interval([getattr(a, metric) - getattr(b, metric) for a, b in zip(with_moves, without, strict=True)])
    hours = [run.moved_gpu_hours for run in with_moves if run.moved_gpu_hours is not None]
    return Gain(
        Saving(moved, plain, section.unit, found.mean, found.low, found.high).times(share, section.unit),
        mean(run.moved_pods or 0 for run in with_moves),
        mean(run.moved_gpus or 0.0 for run in with_moves),
        mean(hours) if hours else None,
    )


def gain_words(gain: Gain) -> str:
    """One sentence without markup."""
    saving = gain.saving
    spread = "" if saving.low is None or saving.high is None else f" (95 %: {saving.low:+.1f} to {saving.high:+.1f})"
    return f"{saving.policy} against {saving.baseline}: {saving.amount:+.1f} {saving.unit}{spread}, {gain.cost}."


def gains_table(section: Section) -> str:
    """As HTML; nothing where no pods were moved."""
    found = gains_of(section)
    if not found:
        return ""
    rows = []
    for gain in found:
        saving = gain.saving
        spread = "" if saving.high is None else f" &plusmn;&nbsp;{number(saving.high - saving.amount, 1)}"
        cells = [Cell(signed(saving.amount, 1) + spread), Cell(text(gain.cost), note="text")]
        rows.append((text(f"{saving.policy}, against {saving.baseline}"), cells))
    head = ["consolidation", f"{section.unit} kept busy more", "cost"]
    return f"<h4>What moving pods gained</h4>{table('gains of consolidation', head, rows)}"
