"""Following objects that are kept by a key: what is listed, changed and deleted comes down to putting and dropping."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pilotage.kube.client import Json

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Keeping(Generic[Key]):
    """A follower of one kind of object."""

    known: Collection[Key]
    key: Callable[[Json], Key]
    put: Callable[[Json], None]
    drop: Callable[[Key], None]  # of one that is known

    def listed(self, objects: list[Json]) -> None:
        there = {self.key(found) for found in objects}
        for key in [key for key in self.known if key not in there]:
            self.drop(key)
        for found in objects:
            self.put(found)

    def changed(self, found: Json) -> None:
        self.put(found)

    def deleted(self, last: Json) -> None:
        key = self.key(last)
        if key in self.known:
            self.drop(key)


def name_of(found: Json) -> str:
    return str(found["metadata"]["name"])


def place_of(found: Json) -> tuple[str, str]:
    """Namespace and name."""
    return found["metadata"]["namespace"], found["metadata"]["name"]
