"""Where a pod may run, from a pod's spec into `Constraints` and back: nodeSelector, required node affinity,
tolerations, nodeName.

Only required rules are read: preferred ones belong to scoring, and rules between pods (pod affinity, topology spread)
are not part of the model. A field selector on `metadata.name` becomes `Constraints.node_name` when it pins the pod to
one node in every alternative; otherwise it is a requirement with the key `metadata.name`.
"""

from __future__ import annotations

import re
from typing import cast, get_args

from pilotage.model.constraints import Constraints, Operator, Requirement, Toleration
from pilotage.workloads.fields import Field

NAME_FIELD = "metadata.name"
NOWHERE = (Requirement("", "In"),)  # a term without any expression matches no node, in Kubernetes
# The scheduler never sees a pod with a nodeName, so that taints against scheduling do not keep it away.
ALREADY_BOUND = Toleration(operator="Exists", effect="NoSchedule")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WHOLE_NUMBER = re.compile(r"[-+]?[0-9]{1,19}")

Term = tuple[Requirement, ...]


def read_constraints(spec: Field) -> Constraints:
    terms = _terms(spec)
    tolerations = tuple(_toleration(entry) for entry in spec.get("tolerations").elements())
    bound = spec.get("nodeName")
    if bound.value:
        extra = () if ALREADY_BOUND in tolerations else (ALREADY_BOUND,)
        return Constraints(terms, tolerations + extra, bound.name())
    pinned = _pinned_node(terms)
    return Constraints(_without_pin(terms) if pinned else terms, tolerations, pinned)


def _terms(spec: Field) -> tuple[Term, ...]:
    selected = spec.get("nodeSelector").strings()
    selector = tuple(Requirement(key, "In", (selected[key],)) for key in sorted(selected))
    required = spec.get("affinity").get("nodeAffinity").get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required.present:
        return (selector,) if selector else ()
    alternatives = [_term(entry) for entry in required.get("nodeSelectorTerms").elements()]
    if not alternatives:
        raise required.get("nodeSelectorTerms").error("has no terms", "at least one node selector term")
    # An empty alternative matches nothing, so it goes; a pod with no other fits nowhere.
    return tuple(selector + term for term in alternatives if term) or (NOWHERE,)


def _term(entry: Field) -> Term:
    expressions = tuple(_requirement(e) for e in entry.get("matchExpressions").elements())
    return expressions + tuple(_field_requirement(e) for e in entry.get("matchFields").elements())


def _requirement(entry: Field) -> Requirement:
    operator = cast(Operator, entry.get("operator").choice(get_args(Operator)))
    values = entry.get("values").string_list()
    if operator in ("In", "NotIn") and not values:
        raise entry.get("values").error(f"{operator} without values", "at least one value")
    if operator in ("Exists", "DoesNotExist") and values:
        raise entry.get("values").error(f"{operator} with values", "no values")
    if operator in ("Gt", "Lt") and not (len(values) == 1 and _WHOLE_NUMBER.fullmatch(values[0])):
        raise entry.get("values").error(f"{operator} of {list(values)[:3]}", 'one whole number as text, such as ["4"]')
    return Requirement(entry.get("key").text(), operator, values)


def _field_requirement(entry: Field) -> Requirement:
    entry.get("key").choice((NAME_FIELD,))
    operator = cast(Operator, entry.get("operator").choice(("In", "NotIn")))
    values = entry.get("values").string_list()
    if len(values) != 1:
        raise entry.get("values").error(f"{len(values)} values", "exactly one node name")
    return Requirement(NAME_FIELD, operator, values)


def _pinned_node(terms: tuple[Term, ...]) -> str:
    """The one node that every alternative names, or nothing."""
    names = {r.values[0] for term in terms for r in term if _is_pin(r)}
    pins_each = all(sum(_is_pin(r) for r in term) == 1 for term in terms)
    return names.pop() if pins_each and len(names) == 1 else ""


def _is_pin(requirement: Requirement) -> bool:
    return requirement.key == NAME_FIELD and requirement.operator == "In"


def _without_pin(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    rest = tuple(tuple(r for r in term if not _is_pin(r)) for term in terms)
    return rest if all(rest) else ()  # an alternative that asks for nothing more leaves nothing to ask


def _toleration(entry: Field) -> Toleration:
    key, value = entry.get("key").text(""), entry.get("value").text("")
    operator = entry.get("operator").choice(("Equal", "Exists"), "Equal")
    effect = entry.get("effect").choice(_EFFECTS, "")
    if operator == "Exists":
        if value:
            raise entry.get("value").error("Exists with a value", "no value, or the operator Equal")
        return Toleration(key, "Exists", "", effect)
    if not key:
        raise entry.get("key").error("is missing", "a key, or the operator Exists to tolerate every taint")
    return Toleration(key, "Equal", value, effect)


def constraint_fields(constraints: Constraints) -> dict[str, object]:
    """The fields of a pod's spec that `read_constraints` reads back as the same constraints."""
    fields: dict[str, object] = {}
    terms = [_term_fields(term, constraints.node_name) for term in constraints.terms or ((),)]
    if constraints.node_name or (constraints.terms and all(constraints.terms)):
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        fields["affinity"] = {"nodeAffinity": required}
    if constraints.tolerations:
        fields["tolerations"] = [_toleration_fields(toleration) for toleration in constraints.tolerations]
    return fields


def _term_fields(term: Term, node_name: str) -> dict[str, object]:
    if term == NOWHERE:
        return {}
    pin = (Requirement(NAME_FIELD, "In", (node_name,)),) if node_name else ()
    wanted = {
        "matchExpressions": [_requirement_fields(r) for r in term if r.key != NAME_FIELD],
        "matchFields": [_requirement_fields(r) for r in (*term, *pin) if r.key == NAME_FIELD],
    }
    return {name: entries for name, entries in wanted.items() if entries}


def _requirement_fields(requirement: Requirement) -> dict[str, object]:
    fields: dict[str, object] = {"key": requirement.key, "operator": requirement.operator}
    return {**fields, "values": list(requirement.values)} if requirement.values else fields


def _toleration_fields(toleration: Toleration) -> dict[str, object]:
    fields = {"key": toleration.key, "value": toleration.value, "effect": toleration.effect}
    return {"operator": toleration.operator, **{name: text for name, text in fields.items() if text}}
