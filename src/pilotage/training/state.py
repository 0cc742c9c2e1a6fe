"""The state of a training as one file: tensors by safetensors, the rest as JSON in its header. No pickle.

One file, so that it appears whole or not at all.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from pilotage.model.errors import InputError
from pilotage.workloads.files import replace_file

FORMAT = 1
_TENSOR, _ARRAY, _PAIRS = "__tensor__", "__array__", "__pairs__"

Tree = Any  # dictionaries, lists and tuples of tensors, arrays, numbers, texts and None


def write_state(path: Path, tree: Tree) -> None:
    tensors: dict[str, torch.Tensor] = {}
    content = _taken_apart(tree, "", tensors)
    metadata = {"training_state": json.dumps({"format": FORMAT, "content": content})}
    replace_file(path, save(tensors, metadata))


def read_state(path: Path) -> Tree:
    """What `write_state` wrote; a tuple comes back as a list."""
    try:
        with safe_open(str(path), "pt") as file:
            content = json.loads((file.metadata() or {})["training_state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        if content["format"] != FORMAT:
            problem = f"is of format {content['format']}"
            raise InputError(problem, file=path, expected=f"format {FORMAT}, as this program writes it")
        return _put_together(content["content"], tensors)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        problem = f"is no state of a training: {error}"
        raise InputError(problem, file=path, expected="a file that was not changed") from error


def _taken_apart(tree: Tree, path: str, tensors: dict[str, torch.Tensor]) -> Tree:
    if isinstance(tree, torch.Tensor):
        tensors[path] = tree.detach().clone().contiguous()  # networks may share memory, a file may not
        return {_TENSOR: path}
    if isinstance(tree, np.ndarray):
        tensors[path] = torch.from_numpy(np.ascontiguousarray(tree).copy()).reshape(tree.shape)
        return {_ARRAY: path}
    if isinstance(tree, dict):
        # As pairs: optimisers have numbers as keys.
        return {_PAIRS: [[key, _taken_apart(value, f"{path}/{key}", tensors)] for key, value in tree.items()]}
    if isinstance(tree, list | tuple):
        return [_taken_apart(value, f"{path}/{i}", tensors) for i, value in enumerate(tree)]
    return tree


def _put_together(tree: Tree, tensors: dict[str, torch.Tensor]) -> Tree:
    if isinstance(tree, list):
        return [_put_together(value, tensors) for value in tree]
    if not isinstance(tree, dict):
        return tree
    if _TENSOR in tree:
        return tensors[tree[_TENSOR]]
    if _ARRAY in tree:
        return tensors[tree[_ARRAY]].numpy()
    return {key: _put_together(value, tensors) for key, value in tree[_PAIRS]}
