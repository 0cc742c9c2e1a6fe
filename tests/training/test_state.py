"""The state of a training as a file."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pilotage.model.errors import InputError
from pilotage.training.observation import Random
from pilotage.training.state import read_state, write_state


def test_a_tree_comes_back_as_it_was(tmp_path: Path) -> None:
    tree: Any = {
        "tensor": torch.arange(6).reshape(2, 3),
        "array": np.array([True, False]),
        "number": np.array(3.5),
        "empty": np.zeros((0, 4), np.float32),
        "by number": {0: {"step": torch.tensor(2.0)}, 10: [1, 2.5, None, "text", -float("inf")]},
    }
    write_state(tmp_path / "state", tree)
    found = read_state(tmp_path / "state")
    assert torch.equal(found["tensor"], tree["tensor"])
    for name in ("array", "number", "empty"):
        assert (found[name].dtype, found[name].shape) == (tree[name].dtype, tree[name].shape)
        np.testing.assert_array_equal(found[name], tree[name])
    assert found["by number"][0]["step"] == 2.0
    assert found["by number"][10] == [1, 2.5, None, "text", -float("inf")]


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_state(tmp_path / name, {"b": torch.ones(3), "a": torch.zeros(2), "c": [1, 2]})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_an_optimiser_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    def stepped(network: nn.Linear, optimiser: torch.optim.Adam) -> torch.Tensor:
        optimiser.zero_grad()
        network(torch.ones(4, 3)).square().sum().backward()
        optimiser.step()
        return network.weight.detach().clone()

    network = nn.Linear(3, 2)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.1)
    stepped(network, optimiser)
    write_state(tmp_path / "state", {"network": network.state_dict(), "optimiser": optimiser.state_dict()})
    expected = stepped(network, optimiser)
    other = nn.Linear(3, 2)
    other_optimiser = torch.optim.Adam(other.parameters(), lr=0.5)
    saved = read_state(tmp_path / "state")
    other.load_state_dict(saved["network"])
    other_optimiser.load_state_dict(saved["optimiser"])
    assert torch.equal(stepped(other, other_optimiser), expected)


def test_random_numbers_go_on(tmp_path: Path) -> None:
    random = Random(3)
    torch.rand(5, generator=random.generator)
    write_state(tmp_path / "state", random.state_dict())
    expected = torch.rand(5, generator=random.generator)
    other = Random(4)
    other.load_state_dict(read_state(tmp_path / "state"))
    assert torch.equal(torch.rand(5, generator=other.generator), expected)


@pytest.mark.parametrize("damage", ["truncated", "pickle", "empty", "no header", "absent"])
def test_what_is_no_state_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "state"
    write_state(path, {"tensor": torch.ones(100)})
    if damage == "absent":
        path.unlink()
    else:
        whole = path.read_bytes()
        bad = {"truncated": whole[:-20], "pickle": pickle.dumps({"a": 1}), "empty": b"", "no header": bytes(200)}
        path.write_bytes(bad[damage])
    with pytest.raises(InputError, match="no state of a training"):
        read_state(path)


def test_a_state_of_another_format_is_refused(tmp_path: Path) -> None:
    write_state(tmp_path / "state", {})
    data = (tmp_path / "state").read_bytes()
    (tmp_path / "state").write_bytes(data.replace(rb"\"format\": 1", rb"\"format\": 9"))
    with pytest.raises(InputError, match="format 9"):
        read_state(tmp_path / "state")
