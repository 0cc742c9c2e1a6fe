"""Policies by name: the built-in ones, the learned ones shipped, those of installed packages, and users' own files.

fgd                    the newest version of a registered policy
fgd@1                  exactly this version
2*fgd+best-fit         a weighted sum
mypackage.mine:Tight   a class in an importable module
mine.py:Tight          a class in a file
runs/best              a directory with a checkpoint; a registered name goes first, ./fgd is never one
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from functools import cache
from importlib.metadata import entry_points
from math import isfinite
from pathlib import Path

from pilotage.kernels.choosing import Rules
from pilotage.model.errors import InputError, PolicyError, UnknownNameError
from pilotage.policies.api import POLICY_NAME, FeatureSchema, Policy, device_rule_of
from pilotage.policies.checkpoints import BEST, SPECIFICATION, Checkpoint, is_checkpoint, read_checkpoint
from pilotage.policies.heuristics import HEURISTICS
from pilotage.policies.learned import policy_of
from pilotage.policies.load_aware import LOAD_AWARE
from pilotage.policies.weighted import WeightedSum

GROUP = "pilotage.policies"
SHIPPED = Path(__file__).with_name("shipped")  # checkpoints, each in its own directory
_TERM = re.compile(r"\s*(?:(?P<weight>[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*\*)?\s*(?P<name>.*\S)\s*")
_PLAIN_NAME = re.compile(r"[^*\s]+")


@cache
def registered() -> dict[str, Policy]:
    """Every policy that can be named without a path, by full name."""
    shipped = (policy_of(read_checkpoint(path)) for path in shipped_paths())
    known: dict[str, Policy] = {policy.name: policy for policy in (*HEURISTICS, *LOAD_AWARE, *shipped)}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        source = f"entry point {entry.name}"
        try:
            thing = entry.load()
        except Exception as error:  # whatever an installed package does when imported
            raise PolicyError(f"{source} ({entry.value}): {type(error).__name__}: {error}") from error
        policy = checked_instance(thing, source)
        if policy.name in known:
            raise PolicyError(f"{source}: the name {policy.name} is taken")
        known[policy.name] = policy
    return known


def find_policy(text: str) -> Policy:
    """The policy that `text` names (see the module's docstring), its declarations checked."""
    if not {"*", "+"} & set(text) or _is_path(text.strip()):
        return _find_one(text.strip())
    parts, weights = [], []
    for term in _terms(text):
        weight, name = _weight_and_name(term)
        if not (_PLAIN_NAME.fullmatch(name) or _is_path(name)):
            raise InputError(f"cannot read {term!r} in {text!r}", expected="a sum such as 2*fgd+best-fit")
        parts.append(_find_one(name))
        weights.append(float(weight))
        if not isfinite(weights[-1]):
            raise InputError(f"weight {weight} in {text!r}", expected="a finite number")
    if not any(weights):
        raise InputError(f"all weights are 0 in {text!r}")
    return WeightedSum(tuple(parts), tuple(weights))


def _terms(text: str) -> list[str]:
    """The terms of a sum. A path may have plus signs of its own: pieces that together name one belong together."""
    pieces, terms = text.split("+"), []
    while pieces:
        longest = range(len(pieces), 1, -1)
        length = next((k for k in longest if _is_path(_weight_and_name("+".join(pieces[:k]))[1])), 1)
        terms.append("+".join(pieces[:length]))
        del pieces[:length]
    return terms


def _weight_and_name(term: str) -> tuple[str, str]:
    match = None if _is_path(term.strip()) else _TERM.fullmatch(term)
    return (match["weight"] or "1", match["name"]) if match else ("1", term.strip())


def _is_path(text: str) -> bool:
    """A checkpoint, or file.py:Class where the file exists. Paths may have * and + in them."""
    file, _, name = text.rpartition(":")
    try:
        return is_checkpoint(Path(text)) or (name.isidentifier() and Path(file).is_file())
    except OSError:  # longer than a path can be
        return False


def _find_one(text: str) -> Policy:
    policy = _registered_as(text)
    if policy is not None:
        return policy
    if text and is_checkpoint(Path(text)):
        return _load_checkpoint(Path(text))
    if ":" in text:
        return _load(text)
    if "/" in text:
        inside = Path(text) / BEST  # of a directory that a training left
        wanted = f"{inside}" if is_checkpoint(inside) else f"a directory with {SPECIFICATION}"
        raise InputError("no checkpoint there", file=text, expected=wanted)
    raise UnknownNameError("policy", text, {name.rpartition("@")[0] for name in registered()})


def _registered_as(text: str) -> Policy | None:
    known = registered()
    if text in known:
        return known[text]
    versions = [name for name in known if name.rpartition("@")[0] == text]
    return known[max(versions, key=lambda name: int(name.rpartition("@")[2]))] if versions else None


def shipped_paths() -> list[Path]:
    return sorted(path for path in SHIPPED.glob("*") if is_checkpoint(path))


def find_checkpoint(text: str) -> Checkpoint:
    """The checkpoint of a learned policy: of a shipped one by its name, else of a directory."""
    policy = _registered_as(text)
    if policy is None:
        return read_checkpoint(Path(text))
    for checkpoint in map(read_checkpoint, shipped_paths()):
        if checkpoint.name == policy.name:
            return checkpoint
    raise InputError(f"{policy.name} is not learned", expected="a shipped learned policy, or a checkpoint's directory")


def _load_checkpoint(path: Path) -> Policy:
    policy = checked_instance(policy_of(read_checkpoint(path)), str(path))
    taken = registered().get(policy.name)
    if taken is not None and getattr(taken, "fingerprint", "") != getattr(policy, "fingerprint", None):
        raise PolicyError(f"{path}: the name {policy.name} is taken")  # a copy of a shipped one is that one
    return policy


def _load(text: str) -> Policy:
    module_name, _, class_name = text.rpartition(":")
    module = _load_file(Path(module_name)) if module_name.endswith(".py") else _load_module(module_name)
    if not hasattr(module, class_name):
        classes = {name: value.__module__ for name, value in vars(module).items() if isinstance(value, type)}
        own = [name for name, home in classes.items() if home == vars(module)["__name__"]]  # not what it imports
        raise UnknownNameError("class", class_name, own or list(classes), file=module_name)
    policy = checked_instance(getattr(module, class_name), text)
    if policy.name in registered() and registered()[policy.name] is not policy:
        raise PolicyError(f"{text}: the name {policy.name} is taken")
    return policy


def _load_module(name: str) -> object:
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever a user's module does when imported
        problem = f"cannot import {name!r}: {type(error).__name__}: {error}"
        raise InputError(problem, expected="module:Class or file.py:Class") from error


def _load_file(path: Path) -> object:
    if not path.is_file():
        raise InputError("no such file", file=path)
    name = f"pilotage_user_policy_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError("not a Python file", file=path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"the file fails when imported: {type(error).__name__}: {error}", file=path) from error
    return module


def checked_instance(thing: object, source: str) -> Policy:
    """An instance whose declarations are right; how it scores is for check_policy to find out."""
    try:
        policy: Policy = thing() if isinstance(thing, type) else thing  # type: ignore[assignment]
    except Exception as error:  # whatever a user's class does when made
        raise PolicyError(f"{source}: cannot be made: {type(error).__name__}: {error}") from error
    missing = [
        attribute
        for attribute in ("name", "features", "scope", "normalise", "prepare", "score")
        if not hasattr(policy, attribute)
    ]
    if missing:
        raise PolicyError(f"{source}: a policy needs {', '.join(missing)}")
    if isinstance(policy, WeightedSum):
        return policy  # made of checked parts
    if not isinstance(policy.name, str) or not POLICY_NAME.fullmatch(policy.name):
        raise PolicyError(f"{source}: name {policy.name!r}; expected name@version such as tightest-cpu@1")
    if policy.scope not in ("node", "cluster"):
        raise PolicyError(f"{source}: scope {policy.scope!r}; expected 'node' or 'cluster'")
    if policy.normalise not in ("none", "minmax"):
        raise PolicyError(f"{source}: normalise {policy.normalise!r}; expected 'none' or 'minmax'")
    if not isinstance(policy.features, FeatureSchema):
        raise PolicyError(f"{source}: features {policy.features!r}; expected a FeatureSchema")
    if not isinstance(getattr(policy, "rules", None), Rules | None):
        raise PolicyError(f"{source}: rules are for compiled policies; expected kernels.choosing.Rules or none")
    policy.features.check()
    if policy.scope == "node" and policy.features.about_gangs:
        raise PolicyError(
            f"{source}: reads columns about gangs, which change without the node; expected scope 'cluster'"
        )
    device_rule_of(policy)
    return policy
