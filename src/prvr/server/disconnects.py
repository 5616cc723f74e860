"""Stop work whose client has gone away."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from prvr.server.problems import Problem

_Result = TypeVar("_Result")


async def unless_gone(request: Request, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Do work; it is cancelled, and has ended when this returns, if the client goes away or the server stops."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Problem(408, "The client went away.", "Ask again.")
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait({working, leaving})


async def _gone(request: Request) -> None:
    """Wait until the client closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
