"""What compiled policies share: their scores outside the compiled episode."""

from __future__ import annotations

import numpy as np

from pilotage.kernels.batches import score_batch
from pilotage.kernels.choosing import Rules
from pilotage.kernels.prices import no_prices, standing_columns
from pilotage.model.workload import FloatArray, IntArray
from pilotage.policies.api import DecisionBatch

NO_PRICES = no_prices()  # of rules that take none; kernels only read it


def score_by_rules(rules: Rules, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
    """`Policy.score` of the first of the rules."""
    arrays = (batch.pod_BF, batch.node_BNF, batch.device_left_BND, batch.feasible_BN)
    stands_X = np.zeros(standing_columns(batch.device_left_BND.shape[2]))
    score_batch(rules, *arrays, out_BN, device_BN, stands_X)
