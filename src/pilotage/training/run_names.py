"""Readable names of runs: two words, drawn by the seed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

MANNERS = """
able amber brisk calm clear close cosy crisp dapper early eager even fair fine fleet fond frank fresh gentle glad
golden good grand green handy happy hardy humble jolly keen kind late level light lively loyal lucky mellow merry
mild modest neat nimble noble patient plain polite prompt proud quick quiet rapid ready sage sharp silent silver
simple smooth snug sober solid sound spry steady still sturdy sunny sure swift tidy trusty upright vivid warm wise
"""
VESSELS = """
barge bark brig buoy canoe caravel catboat clipper coaster cog coracle corvette cutter dhow dinghy dory drifter
ferry frigate galleon galley gig gondola houseboat hoy junk kayak kedge ketch launch lighter lugger mast packet
pilot pinnace pontoon pram punt raft rudder sampan schooner scow sextant shallop skiff sloop smack tender trawler
tug wherry whaler xebec yacht yawl
"""


def run_names(agent: str, seed: int) -> Iterator[str]:
    """Names in the order in which this agent and seed draw them; the first that is free is taken."""
    random = np.random.default_rng([seed, *agent.encode()])
    while True:
        yield f"{random.choice(MANNERS.split())}-{random.choice(VESSELS.split())}"
