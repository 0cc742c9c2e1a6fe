"""Checkpoints: what is written comes back; what does not match its specification is refused with the reason."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.errors import InputError
from pilotage.policies import checkpoints
from pilotage.policies.architectures import Architecture
from pilotage.policies.checkpoints import (
    MAX_SPECIFICATION_BYTES,
    SPECIFICATION,
    WEIGHTS,
    Origin,
    read_checkpoint,
    write_checkpoint,
)
from reference.random_weights import GRAPH, KINDS, MLP, PRICES, random_checkpoint
from reference.strategies import checked

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "mine", random_checkpoint(MLP))
    return tmp_path / "mine"


def change(place: Path, how: Change) -> None:
    content = json.loads((place / SPECIFICATION).read_text())
    how(content)
    (place / SPECIFICATION).write_text(json.dumps(content))


def put_weights(place: Path, data: bytes) -> None:
    """Other weights, of which the specification says the truth."""
    (place / WEIGHTS).write_bytes(data)
    change(place, lambda c: c["weights"].update(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data)))


def put_tensors(place: Path, how: Change) -> None:
    tensors = dict(read_checkpoint(place).tensors)
    how(tensors)
    put_weights(place, safetensors.numpy.save(tensors))


def refusal(place: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_checkpoint(place)
    return str(caught.value)


# What is written comes back


@pytest.mark.parametrize("architecture", KINDS)
def test_what_is_written_comes_back(tmp_path: Path, architecture: Architecture) -> None:
    written = random_checkpoint(architecture)
    write_checkpoint(tmp_path / "deep" / "mine", written)
    read = read_checkpoint(tmp_path / "deep" / "mine")
    assert read.specification() == written.specification()
    assert read.fingerprint == written.fingerprint
    for name, tensor in written.tensors.items():
        np.testing.assert_array_equal(read.tensors[name], tensor)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["deep", "mine", SPECIFICATION, WEIGHTS]


def test_the_same_weights_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_checkpoint(tmp_path / name, random_checkpoint(GRAPH))
    for file in (SPECIFICATION, WEIGHTS):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_the_fingerprint_is_about_scores_alone() -> None:
    one = random_checkpoint(MLP)
    assert replace(one, name="other@2", summary="", origin=Origin()).fingerprint == one.fingerprint
    assert random_checkpoint(MLP, seed=1).fingerprint != one.fingerprint


def test_another_checkpoint_is_replaced_whole(place: Path) -> None:
    write_checkpoint(place, random_checkpoint(GRAPH))
    assert read_checkpoint(place).kind == "graph"
    assert [path.name for path in place.parent.iterdir()] == ["mine"]


def test_what_is_no_checkpoint_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(InputError, match="no checkpoint"):
        write_checkpoint(tmp_path, random_checkpoint(MLP))
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


def test_a_write_that_fails_leaves_the_old_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(InputError, match="No space left"):
        write_checkpoint(place, random_checkpoint(GRAPH))
    assert read_checkpoint(place).kind == "mlp"
    assert [path.name for path in place.parent.iterdir()] == ["mine"]


def test_a_rename_that_fails_puts_the_old_one_back(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def torn(path: Path, target: Path) -> Path:
        if path.name.endswith(".partial"):
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", torn)
    with pytest.raises(InputError, match="Input/output"):
        write_checkpoint(place, random_checkpoint(GRAPH))
    assert read_checkpoint(place).kind == "mlp"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (replace(random_checkpoint(MLP), name="No Version"), "name@version"),
        (replace(random_checkpoint(MLP), tensors={}), "weights.bytes"),
        (replace(random_checkpoint(MLP), architecture=Architecture("mlp", 17, 2)), r"expected \(17, 24\)"),
        (replace(random_checkpoint(MLP), architecture=Architecture("mlp", 16, 9)), "architecture.depth"),
        (replace(random_checkpoint(MLP), origin=Origin(scores={"validation": float("nan")})), "not JSON"),
        (replace(random_checkpoint(MLP), origin=Origin(training={"agent": object()})), "not JSON"),
        (replace(random_checkpoint(PRICES), summary="two\nlines"), "summary"),
    ],
)
def test_what_could_not_be_read_is_not_written(tmp_path: Path, bad: checkpoints.Checkpoint, said: str) -> None:
    with pytest.raises(InputError, match=said):
        write_checkpoint(tmp_path / "bad", bad)
    assert not list(tmp_path.iterdir())


def test_weights_that_are_not_finite_are_not_written(tmp_path: Path) -> None:
    made = random_checkpoint(MLP)
    made.tensors["layers.1.bias"][3] = np.inf
    with pytest.raises(InputError, match=r"layers\.1\.bias: has weights that are not finite"):
        write_checkpoint(tmp_path / "bad", made)


# What the specification may not say


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (lambda c: c.update(format=2), "format: is a number '2'; expected format 1"),
        (lambda c: c.pop("format"), "format: is missing"),
        (lambda c: c.update(format=True), "format: is a boolean"),
        (lambda c: c.update(colour="red"), "unknown field 'colour'"),
        (lambda c: c.update(name="mine"), "name: is text 'mine'; expected name@version"),
        (lambda c: c.update(name="../x@1"), "expected name@version"),
        (lambda c: c.update(summary="\x1b[31m"), "summary: is text"),
        (lambda c: c.update(summary=7), "summary: is a number '7'; expected printable text"),
        (lambda c: c.update(kind="forest"), "kind: unknown kind of policy 'forest'; did you mean"),
        (lambda c: c.update(kind="graph"), "architecture.heads: is missing"),
        (lambda c: c.update(kind="prices"), "architecture: unknown field 'hidden'"),
        (lambda c: c.update(architecture=[16, 2]), "architecture: is a list; expected an object"),
        (lambda c: c["architecture"].update(hidden=10**9), "architecture.hidden: is a number"),
        (lambda c: c["architecture"].update(hidden=16.5), "expected a whole number from 1 to 1024"),
        (lambda c: c["architecture"].update(depth=-1), "expected a whole number from 0 to 8"),
        (lambda c: c["architecture"].update(depth=3), "weights.bytes: is a number"),
        (lambda c: c["inputs"].update(version=2), "inputs.version: is a number '2'; expected version 1"),
        (lambda c: c["inputs"]["node"].reverse(), "inputs.node: are other columns"),
        (lambda c: c["inputs"]["pod"].pop(), "inputs.pod: are other columns"),
        (lambda c: c["inputs"].pop("pod"), "inputs.pod: are other columns"),
        (lambda c: c.pop("training"), "training: is missing"),
        (lambda c: c.update(seeds=3), "seeds: is a number '3'; expected an object"),
        (lambda c: c.update(data_hash=None), "data_hash: is missing"),
        (lambda c: c["scores"].update(validation="good"), "scores.validation: is text 'good'"),
        (lambda c: c["scores"].update(validation=10**400), "scores.validation: is a number"),
        (lambda c: c["weights"].update(sha256="0" * 64), "another sha256"),
        (lambda c: c["weights"].update(bytes=10**12), "weights.bytes: is a number"),
        (lambda c: c["weights"]["shapes"].pop("layers.0.bias"), "layers.0.bias: is missing; expected [16]"),
        (lambda c: c["weights"]["shapes"].update({"layers.0.bias": [17]}), "expected [16]"),
        (lambda c: c["weights"]["shapes"].update(more=[1]), "weights.shapes: unknown field 'more'"),
    ],
)
def test_a_wrong_field_is_named(place: Path, how: Change, said: str) -> None:
    change(place, how)
    message = refusal(place)
    assert said in message
    assert str(place) in message


def test_heads_must_divide_the_width(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "mine", random_checkpoint(GRAPH))
    change(tmp_path / "mine", lambda c: c["architecture"].update(heads=5))
    assert "architecture.heads: is a number '5'; expected a divisor of hidden, which is 12" in refusal(
        tmp_path / "mine"
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not JSON",
        b"[" * 100_000,
        b'{"format": NaN}',
        b'{"format": Infinity}',
        b"\xff\xfe{}",
        b"{" + b'"a":' + b"1" * 5000 + b"}",
        pickle.dumps({"format": 1}),
    ],
)
def test_a_specification_that_is_no_json_is_refused(place: Path, content: bytes) -> None:
    (place / SPECIFICATION).write_bytes(content)
    assert f"{place / SPECIFICATION}: is not JSON" in refusal(place)


def test_a_list_in_place_of_the_specification_is_refused(place: Path) -> None:
    (place / SPECIFICATION).write_bytes(b"[1]")
    assert "is a list; expected an object" in refusal(place)


def test_a_specification_without_limit_is_refused(place: Path) -> None:
    with (place / SPECIFICATION).open("ab") as stream:
        stream.write(b" " * MAX_SPECIFICATION_BYTES)
    assert f"has more than {MAX_SPECIFICATION_BYTES} bytes" in refusal(place)


# What the weights may not be


@pytest.mark.parametrize("left", [0, 5, 100, -1])
def test_truncated_weights_are_refused(place: Path, left: int) -> None:
    data = (place / WEIGHTS).read_bytes()
    (place / WEIGHTS).write_bytes(data[:left])
    said = f"is truncated: {len(data[:left])} bytes; expected {len(data)} bytes"
    assert (said if left not in (0, 5) else "is not a safetensors file") in refusal(place)


def test_a_flipped_bit_is_refused(place: Path) -> None:
    data = bytearray((place / WEIGHTS).read_bytes())
    data[-10] ^= 1
    (place / WEIGHTS).write_bytes(data)
    assert "another sha256" in refusal(place)


def test_longer_weights_are_refused(place: Path) -> None:
    with (place / WEIGHTS).open("ab") as stream:
        stream.write(b"more")
    assert "is longer than its specification says" in refusal(place)


def test_weights_without_limit_are_not_read(place: Path) -> None:
    with (place / WEIGHTS).open("r+b") as stream:
        stream.truncate(2**40)  # takes no room on disk
    assert "has more than" in refusal(place)


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("exploded",)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_in_disguise_is_refused(place: Path, protocol: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    size = (place / WEIGHTS).stat().st_size
    put_weights(place, pickle.dumps([Bomb(), b" " * (size - 60)], protocol))
    assert "is a pickle, which could run any code and is never loaded" in refusal(place)
    assert not (place / "exploded").exists()


def test_a_zip_in_disguise_is_refused(place: Path) -> None:
    size = (place / WEIGHTS).stat().st_size
    with zipfile.ZipFile(place / "archive", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Bomb()) + b" " * (size - 200))
    put_weights(place, (place / "archive").read_bytes())
    assert "is a zip archive, such as torch.save writes" in refusal(place)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (
            lambda t: t["layers.1.weight"].__setitem__((2, 3), np.nan),
            "layers.1.weight: has weights that are not finite",
        ),
        (lambda t: t["layers.2.bias"].__setitem__(0, np.inf), "layers.2.bias: has weights that are not finite"),
        (lambda t: t.pop("layers.2.bias"), "tensor 'layers.2.bias' is missing"),
        (lambda t: t.update(more=np.zeros(3, np.float32)), "tensor 'more' is not part of this kind of policy"),
        (lambda t: t.update({"layers.2.bias": np.zeros((1, 1), np.float32)}), "layers.2.bias: has the shape (1, 1)"),
        (lambda t: t.update({"layers.2.bias": np.zeros(1)}), "layers.2.bias: is of type float64; expected float32"),
        (lambda t: t.update({"layers.2.bias": np.zeros(1, np.int32)}), "layers.2.bias: is of type int32"),
        (lambda t: t.update({"layers.1.weight": t["layers.1.weight"][1:]}), "layers.1.weight: has the shape (15, 16)"),
    ],
)
def test_tensors_that_do_not_match_are_named(place: Path, how: Change, said: str) -> None:
    put_tensors(place, how)
    message = refusal(place)
    assert said in message
    assert str(place) in message


def test_a_header_that_lies_is_refused(place: Path) -> None:
    data = (place / WEIGHTS).read_bytes()
    put_weights(place, data.replace(b'"data_offsets":[0,', b'"data_offsets":[4,', 1))
    assert "cannot be read" in refusal(place)


@pytest.mark.parametrize("file", [SPECIFICATION, WEIGHTS])
def test_a_missing_file_is_named(place: Path, file: str) -> None:
    (place / file).unlink()
    assert f"{place / file}: no such file; expected a checkpoint" in refusal(place)


def test_what_would_block_a_reader_is_refused(place: Path) -> None:
    (place / WEIGHTS).unlink()
    os.mkfifo(place / WEIGHTS)
    assert "no such file" in refusal(place)


@given(at=st.floats(0, 1), byte=st.integers(0, 255), cut=st.booleans())
@checked(200)
def test_damage_is_refused_or_without_effect(
    at: float, byte: int, cut: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("damaged") / "mine"
    made = random_checkpoint(Architecture("mlp", 2, 1))
    write_checkpoint(place, made)
    for file in (SPECIFICATION, WEIGHTS):
        data = (place / file).read_bytes()
        k = min(int(at * len(data)), len(data) - 1)
        (place / file).write_bytes(data[:k] if cut else data[:k] + bytes([byte]) + data[k + 1 :])
        assert fingerprint_or_file(place) in (made.fingerprint, place / SPECIFICATION, place / WEIGHTS)
        (place / file).write_bytes(data)


def fingerprint_or_file(place: Path) -> object:
    """Of the checkpoint, or the file for which it was refused."""
    try:
        return read_checkpoint(place).fingerprint
    except InputError as error:
        return error.file
