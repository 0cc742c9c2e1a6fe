"""Scores of a whole batch of decisions, for fronts that do not run inside the compiled episode."""

from __future__ import annotations

from pilotage.kernels.choosing import Rules
from pilotage.kernels.compiling import kernel
from pilotage.kernels.features import POD_GPU_COUNT, POD_GPU_MILLI
from pilotage.kernels.prices import priced_score, priced_share_device, stand
from pilotage.kernels.scoring import FGD, PRICED, fgd_best_device, score_node
from pilotage.model.workload import BoolArray, FloatArray, IntArray


@kernel
def score_batch(
    rules: Rules,
    pod_BF: FloatArray,
    node_BNF: FloatArray,
    device_left_BND: IntArray,
    feasible_BN: BoolArray,
    out_BN: FloatArray,
    device_BN: IntArray,
    stands_X: FloatArray,
) -> None:
    """Scores by the first of the rules. `stands_X` is scratch (prices.standing_columns): kernels make no arrays."""
    rule, typical, prices = rules.rule_K[0], rules.typical, rules.prices
    for b in range(out_BN.shape[0]):
        shares = pod_BF[b, POD_GPU_COUNT] == 1 and pod_BF[b, POD_GPU_MILLI] < 1000
        for n in range(out_BN.shape[1]):
            if not feasible_BN[b, n]:
                continue
            if rule == FGD and shares:
                best = fgd_best_device(typical, pod_BF, b, node_BNF[b], n, device_left_BND[b])
                out_BN[b, n], device_BN[b, n] = best[0], best[1]
            elif rule == PRICED:
                stand(prices, node_BNF[b], n, device_left_BND[b, n], stands_X)
                out_BN[b, n] = priced_score(prices, pod_BF, b, device_left_BND[b, n], stands_X)
                if shares:
                    device_BN[b, n] = priced_share_device(prices, pod_BF, b, node_BNF[b], n, device_left_BND[b])
            else:
                out_BN[b, n] = score_node(rule, typical, pod_BF, b, node_BNF[b], n, device_left_BND[b])
