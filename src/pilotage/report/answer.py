"""The operator's answer in plain words: the head of the report, and every policy against the baseline."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from pilotage.report.markup import Cell, table, text
from pilotage.report.metrics import duration, number, rounded, signed
from pilotage.report.savings import (
    HOURS_PER_MONTH,
    HOURS_PER_YEAR,
    Saving,
    Verdict,
    best_of,
    money,
    savings_of,
)
from pilotage.report.section import Section

if TYPE_CHECKING:
    from pilotage.sim.compare import Price

WAITS = ("gpu_weighted_wait", "mean_wait")


def answer(sections: list[Section], titles: list[str], price: Price | None) -> str:
    """Title, answer for each section, and the table of all policies. `titles` are HTML, one for each section."""
    if len(sections) == 1:
        head = f"<h1>{headline(sections[0])}</h1>{_particulars(sections[0], titles[0], price)}"
    else:
        cards = "".join(
            f'<li><h3><a href="#part-{k}">{title}</a></h3><p class="short">{headline(section)}</p>'
            f"{_particulars(section, '', price)}</li>"
            for k, (section, title) in enumerate(zip(sections, titles, strict=True))
        )
        head = f'<h1>{overall(sections)}</h1><h2>The answer for each trace</h2><ul class="cards">{cards}</ul>'
    rest = _method(sections, price) + _against_baseline(sections, titles, price)
    return f"<header>{head}</header><section>{rest}</section>"


def headline(section: Section) -> str:
    """One sentence, as HTML: who keeps how much more busy than whom, as far as the seeds tell."""
    best = best_of(section)
    if best is None:
        row = section.row(section.policies[0])
        busy = number(row.mean * section.capacity / 100, 0)
        return f"{_name(row.policy)} keeps <b>{busy} of {number(section.capacity, 0)} {section.unit}</b> busy"
    verdict, amount = best.verdict, _amount(best.amount)
    if verdict is Verdict.SAME:
        return f"{_name(best.policy)} and {_name(best.baseline)} keep <b>the same number of {section.unit}</b> busy"
    if verdict is Verdict.UNCLEAR:
        return (
            f"<b>No difference</b> between {_name(best.policy)} and {_name(best.baseline)} can be told from these seeds"
        )
    next_best = "the next best, " if best.policy == section.baseline and len(section.policies) > 2 else ""
    return (
        f"{_name(best.policy)} would have kept <b>{amount} more {section.unit}</b> busy than "
        f"{next_best}{_name(best.baseline)}"
    )


def overall(sections: list[Section]) -> str:
    """One sentence about all sections: the policy that is best over them, against the baseline."""
    where = f"{len(sections)} {_cases(sections)}"
    baseline, unit = sections[0].baseline, _common_unit(sections)
    by_policy: dict[str, list[Saving]] = {}
    total: defaultdict[str, float] = defaultdict(float)  # shares of the capacity: clusters of any size count alike
    for section in sections:
        for saving in savings_of(section):
            by_policy.setdefault(saving.policy, []).append(saving)
            total[saving.policy] += saving.amount / section.capacity
    if not by_policy:
        return f"{_name(sections[0].policies[0])} on {where}"
    if all(saving.verdict is Verdict.FEWER for own in by_policy.values() for saving in own):
        return f"{_name(baseline)}, the baseline, keeps the <b>most {unit}</b> busy on <b>all {where}</b>"
    policy = max(by_policy, key=lambda name: total[name])
    counts = Counter(saving.verdict for saving in by_policy[policy])
    more = sum(saving.amount > 0 for saving in by_policy[policy]) if counts[Verdict.ONE_SEED] else counts[Verdict.MORE]
    if more:
        return (
            f"{_name(policy)} would have kept <b>more {unit}</b> busy than {_name(baseline)} "
            f"on <b>{more} of {where}</b>"
        )
    return f"No policy can be told to keep more {unit} busy than {_name(baseline)} on these {where}"


def _cases(sections: list[Section]) -> str:
    if len({section.load for section in sections}) == 1:
        return "traces"
    return "loads" if len({section.trace.name for section in sections}) == 1 else "cases of trace and load"


def _common_unit(sections: list[Section]) -> str:
    units = {section.unit for section in sections}
    return units.pop() if len(units) == 1 else "capacity"


def _particulars(section: Section, title: str, price: Price | None) -> str:
    """Where, how sure, how much money, how long pods wait."""
    best = best_of(section)
    lines = [f"On {title}: {cluster_words(section)}."] if title else [f"{cluster_words(section)}."]
    if best is not None:
        lines[0] += f" {_certainty(best)}"
        if price is not None and section.gpus:
            lines.append(_money_words(best, price))
        lines += _wait_words(section, best)
        lines += _failure_words(section, best) if not section.gpus else []
    return "".join(f'<p class="{"lead" if title else "fine"}">{line}</p>' for line in lines)


def cluster_words(section: Section) -> str:
    nodes = number(len(section.trace.nodes), 0)
    owned = f"{number(section.gpus, 0)} GPUs" if section.gpus else f"{number(section.cores, 0)} CPU cores"
    return f"{owned} on {nodes} nodes, {section.load_words()}"


def _certainty(saving: Saving) -> str:
    if saving.low is None or saving.high is None:
        return "One run gives no interval: another order of arrivals may give another answer."
    if saving.verdict is Verdict.SAME:
        return f"The difference is less than 0.1 {saving.unit} either way."
    spread = f"95 % interval {_signed(saving.low)} to {_signed(saving.high)} {saving.unit}"
    if saving.verdict is Verdict.UNCLEAR:
        return f"The mean difference is {_signed(saving.amount)} {saving.unit}, but its {spread} includes zero."
    return f"{spread}."


def _money_words(saving: Saving, price: Price) -> str:
    month, year = (money(saving, price, hours) for hours in (HOURS_PER_MONTH, HOURS_PER_YEAR))
    unit = text(price.unit)
    words = f"Worth about <b>{rounded(month.amount)} {unit} a month</b>, <b>{rounded(year.amount)} {unit} a year</b>"
    if year.low is not None and year.high is not None:
        words += f" (95 % interval {rounded(year.low)} to {rounded(year.high)} {unit} a year)"
    if saving.verdict is Verdict.UNCLEAR:
        words += "; as the interval includes zero, count on nothing"
    return f"{words}."


def _wait_words(section: Section, best: Saving) -> list[str]:
    """Waiting of the two policies of the answer; for timed runs only."""
    metric = next((m for m in WAITS if m in section.metrics), None)
    if metric is None:
        return []
    other = best.policy if best.policy != section.baseline else best.baseline
    row, own = section.row(other, metric), section.row(section.baseline, metric)
    weighted = " (weighted by GPU)" if metric == "gpu_weighted_wait" else ""
    words = (
        f"Pods waited {duration(row.mean)} with {_name(other)} and {duration(own.mean)} with "
        f"{_name(section.baseline)} on average{weighted}"
    )
    if row.difference_low is None or row.difference_high is None:
        return [f"{words}."]
    unclear = row.difference_low <= 0 <= row.difference_high and row.difference_low != row.difference_high
    return [f"{words}{': no difference can be told from these seeds' if unclear else ''}."]


def _failure_words(section: Section, best: Saving) -> list[str]:
    failed = [section.row(policy, "failed_pods").mean for policy in (best.policy, best.baseline)]
    if not any(failed):
        return ["No pod failed with either of them."]
    first, second = (number(value, 0) for value in failed)
    return [
        f"Pods failed: {first} with {_name(best.policy)}, {second} with {_name(best.baseline)} (mean over the seeds)."
    ]


def _method(sections: list[Section], price: Price | None) -> str:
    unit = _common_unit(sections)
    owned = "GPUs, or CPU cores where there are none," if unit == "capacity" else unit
    lines = [
        f"<b>How this is counted.</b> {unit} saved = (allocated % with the policy &minus; allocated % with the "
        f"baseline) &times; {owned} of the cluster / 100, paired by seed. So much more of the cluster does work that "
        "was asked for, and need not be bought for it. The best of several policies is chosen on the same seeds that "
        "measure it, which favours it a little."
    ]
    if price is not None:
        rate = f"{price.per_gpu_hour:g} {text(price.unit)}".strip()
        lines.append(
            f"Money = GPUs saved &times; {rate} per GPU and hour &times; {HOURS_PER_MONTH} h a month, or "
            f"{number(HOURS_PER_YEAR, 0)} h a year."
        )
    return f'<p class="fine">{" ".join(lines)}</p>'


def _against_baseline(sections: list[Section], titles: list[str], price: Price | None) -> str:
    """Rows policies, columns sections; nothing where there is nothing to compare."""
    found = [{saving.policy: saving for saving in savings_of(section)} for section in sections]
    policies = list(dict.fromkeys(policy for savings in found for policy in savings))
    if not policies:
        return ""
    head = [
        "policy",
        *(
            f"{title}<small>{_cell_unit(section, price)}</small>"
            for section, title in zip(sections, titles, strict=True)
        ),
    ]
    rows = [(text(policy), [_saving_cell(savings.get(policy), price) for savings in found]) for policy in policies]
    return (
        f"<h2>Every policy against {text(sections[0].baseline)}</h2>"
        f"{table('capacity kept busy more than by the baseline', head, rows)}"
        '<p class="fine">More (+) or less (&minus;) kept busy than by the baseline, &plusmn; 95 % interval. '
        "Grey: the interval includes zero.</p>"
    )


def _saving_cell(saving: Saving | None, price: Price | None) -> Cell:
    if saving is None:
        return Cell("&ndash;")
    digits = _digits(saving.amount)
    html = signed(saving.amount, digits)
    if saving.high is not None:
        html += f" &plusmn; {number(saving.high - saving.amount, digits)}"
    if price is not None and saving.unit == "GPUs":
        year = money(saving, price, HOURS_PER_YEAR).amount
        html += f"<small>{'+' if year > 0 else ''}{rounded(year)}</small>"
    return Cell(html, note="unclear" if saving.verdict in (Verdict.UNCLEAR, Verdict.SAME) else "")


def _cell_unit(section: Section, price: Price | None) -> str:
    return f"{section.unit}; {text(price.unit)} a year" if price is not None and section.gpus else section.unit


def _name(policy: str) -> str:
    return f'<span class="name">{text(policy)}</span>'


def _digits(amount: float) -> int:
    return 0 if abs(amount) >= 10 else 1


def _amount(amount: float) -> str:
    return number(amount, _digits(amount))


def _signed(amount: float) -> str:
    return signed(amount, _digits(amount))
