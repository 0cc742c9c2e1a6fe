"""Curves for TensorBoard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor
from torch.utils.tensorboard.writer import SummaryWriter


class Events:
    """Writes figures and actions under the step they belong to."""

    def __init__(self, writer: SummaryWriter) -> None:
        self.writer = writer

    def write(self, step: int, figures: dict[str, float], actions: Tensor | None = None) -> None:
        for name, value in figures.items():
            self.writer.add_scalar(name, value, step)
        if actions is not None and len(actions):
            self.writer.add_histogram("actions", actions, step)
        self.writer.flush()


@contextmanager
def open_events(directory: Path, from_step: int) -> Iterator[Events]:
    """Events from `from_step` on; those that a killed run wrote beyond it are hidden."""
    writer = SummaryWriter(str(directory), purge_step=from_step if from_step else None)
    try:
        yield Events(writer)
    finally:
        writer.close()
