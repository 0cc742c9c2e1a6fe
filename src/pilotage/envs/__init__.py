"""Environments to learn in. Importing this registers them with Gymnasium, where that is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

IDS: Final = {"packing": "pilotage/Packing-v1", "balance": "pilotage/Balance-v1", "load": "pilotage/Load-v1"}

GANG_ID: Final = "pilotage/Gang-v1"


def register_environments() -> None:
    """Once is enough: what is registered already stays."""
    from gymnasium.envs.registration import register, registry

    for environment, name in IDS.items():
        if name not in registry:
            register(
                id=name,
                entry_point="pilotage.envs.single:ClusterEnv",
                vector_entry_point="pilotage.envs.many:ClusterVectorEnv",
                kwargs={"environment": environment},
            )
    if GANG_ID not in registry:
        register(id=GANG_ID, entry_point="pilotage.envs.gang:GangEnv")


if find_spec("gymnasium") is not None:
    register_environments()
