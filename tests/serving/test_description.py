"""The OpenAPI description against the running service: whatever follows or breaks it is answered, never with 5xx."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from pilotage.model.cluster import Node
from pilotage.serving.openapi import VERSION, description
from pilotage.serving.run import Serving, Settings
from serving.services import a_service, read

DESCRIPTION = json.loads(description(extender=True))
schema = schemathesis.openapi.from_dict(DESCRIPTION)


@pytest.fixture(scope="module")
def service() -> Iterator[Serving]:
    nodes = tuple(Node(f"node-{n}", 8000, 2**35, gpu_count=n) for n in range(3))
    with a_service(Settings(policies=("least-allocated",), port=0, nodes=nodes)) as running:
        yield running


def test_it_is_served_and_versioned(service: Serving) -> None:
    status, body = read(service, "/openapi.json")
    assert status == 200
    assert json.loads(body)["info"]["version"] == VERSION
    assert {"/v1/score", "/v1/suggest", "/extender/filter"} <= json.loads(body)["paths"].keys()


@schema.parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_is_sent_is_answered_as_described(case: Case[Any], service: Serving) -> None:
    response = case.call(base_url=f"http://127.0.0.1:{service.port}")
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    case.validate_response(response, checks=checks)
