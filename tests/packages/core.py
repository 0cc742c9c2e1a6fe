"""What `pip install pilotage` brings, found from the packages' own metadata."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SITE = Path(str(metadata.distribution("numpy").locate_file("")))


def core_packages() -> dict[str, metadata.Distribution]:
    """The packages of an installation without extras, Pilotage itself left out."""
    found: dict[str, metadata.Distribution] = {}
    waiting = ["pilotage"]
    while waiting:
        for text in metadata.requires(waiting.pop()) or ():
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                found[name] = metadata.distribution(name)
                waiting.append(name)
    return found


def files_of(package: metadata.Distribution) -> list[Path]:
    """Those in site-packages; scripts lie elsewhere."""
    paths = [Path(str(entry.locate())).resolve() for entry in package.files or ()]
    return [path for path in paths if path.is_relative_to(SITE.resolve()) and path.is_file()]


def link_packages(target: Path) -> None:
    """A site-packages directory with the core's packages and no others."""
    for package in core_packages().values():
        for top in {path.relative_to(SITE.resolve()).parts[0] for path in files_of(package)}:
            link = target / top
            if not link.exists():
                link.symlink_to(SITE / top)
