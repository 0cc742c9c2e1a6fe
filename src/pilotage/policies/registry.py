"""Policies by name: the built-in ones, those of installed packages, and users' own files.

fgd                    the newest version of a registered policy
fgd@1                  exactly this version
2*fgd+best-fit         a weighted sum
mypackage.mine:Tight   a class in an importable module
mine.py:Tight          a class in a file
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
from pilotage.policies.heuristics import HEURISTICS
from pilotage.policies.weighted import WeightedSum

GROUP = "pilotage.policies"
_TERM = re.compile(r"\s*(?:(?P<weight>[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*\*)?\s*(?P<name>[^*+\s]+)\s*")


@cache
def registered() -> dict[str, Policy]:
    """Every policy that can be named without a path, by full name."""
    known: dict[str, Policy] = {policy.name: policy for policy in HEURISTICS}
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
    if _names_one(text):
        return _find_one(text.strip())
    terms = text.split("+")
    parts, weights = [], []
    for term in terms:
        match = _TERM.fullmatch(term)
        if match is None:
            raise InputError(f"cannot read {term!r} in {text!r}", expected="a sum such as 2*fgd+best-fit")
        parts.append(_find_one(match["name"]))
        weights.append(float(match["weight"] or 1))
        if not isfinite(weights[-1]):
            raise InputError(f"weight {match['weight']} in {text!r}", expected="a finite number")
    if not any(weights):
        raise InputError(f"all weights are 0 in {text!r}")
    return WeightedSum(tuple(parts), tuple(weights))


def _names_one(text: str) -> bool:
    """No sum: neither * nor +, or a file whose own path has them."""
    path, _, name = text.strip().rpartition(":")
    return not {"*", "+"} & set(text) or (name.isidentifier() and Path(path).is_file())


def _find_one(text: str) -> Policy:
    if ":" in text:
        return _load(text)
    known = registered()
    if text in known:
        return known[text]
    versions = [name for name in known if name.rpartition("@")[0] == text]
    if not versions:
        raise UnknownNameError("policy", text, {name.rpartition("@")[0] for name in known})
    return known[max(versions, key=lambda name: int(name.rpartition("@")[2]))]


def _load(text: str) -> Policy:
    module_name, _, class_name = text.rpartition(":")
    module = _load_file(Path(module_name)) if module_name.endswith(".py") else _load_module(module_name)
    if not hasattr(module, class_name):
        classes = [name for name, value in vars(module).items() if isinstance(value, type)]
        raise UnknownNameError("class", class_name, classes, file=module_name)
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
