"""A namespace is of use when pods can be made in it."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from kube.servers import a_client
from pilotage.lab import namespaces
from pilotage.lab.namespaces import ensure_namespace
from pilotage.model.clock import SystemClock
from pilotage.model.errors import InputError


def answered(*, there: bool, asks_until_account: int) -> list[str]:
    """Requests about a namespace whose service account is made after some questions."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(f"{request.method} {request.path}")
        if request.method == "POST":
            return web.json_response({}, status=409 if there else 201)
        return web.json_response({}, status=404 if len(asked) <= asks_until_account else 200)

    async def run() -> None:
        async with a_client(answer) as client:
            await ensure_namespace(client, "shop", SystemClock())

    asyncio.run(run())
    return asked


@pytest.mark.parametrize("there", [False, True])
def test_it_is_waited_for_until_it_has_its_service_account(there: bool) -> None:
    account = "GET /api/v1/namespaces/shop/serviceaccounts/default"
    assert answered(there=there, asks_until_account=3) == ["POST /api/v1/namespaces", account, account, account]


def test_one_that_never_gets_it_is_an_error_that_names_who_should_have_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "MOST_SECONDS", 0.1)
    with pytest.raises(InputError, match=r"shop has no service account .* kube-controller-manager to run"):
        answered(there=False, asks_until_account=10**6)
