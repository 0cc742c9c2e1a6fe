"""`python -m pilotage` is the same as `pilotage`."""

from pilotage.cli import main

main()
