"""Label selectors as kubectl writes them."""

from __future__ import annotations

import pytest

from pilotage.kube.selectors import read_label_selector
from pilotage.model.errors import InputError

LABELS = {"pool": "gpu", "zone": "a", "topology.kubernetes.io/rack": "r-1"}


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("pool=gpu", True),
        ("pool==gpu,zone=a", True),
        ("pool=gpu,zone=b", False),
        ("pool!=cpu", True),
        ("none!=x", True),
        ("zone in (a, b)", True),
        ("zone notin (a,b)", False),
        ("pool", True),
        ("!spot,pool", True),
        ("!pool", False),
        ("topology.kubernetes.io/rack=r-1", True),
    ],
)
def test_what_is_chosen(text: str, chosen: bool) -> None:
    assert read_label_selector(text, "x").allows("n", LABELS, ()) is chosen


@pytest.mark.parametrize("text", ["", "a=b,", "a in b", "a in ()", "=b", "a=b c", "a in (b", "x" * 5000])
def test_what_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--node-selector"):
        read_label_selector(text, "--node-selector")
