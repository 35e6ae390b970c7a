"""A FastAPI application: the middleware moves what computes off the event loop."""

from fastapi import FastAPI

import greenlane
from greenlane.hosts.asgi import Greenlane

app = FastAPI()
app.add_middleware(Greenlane)


def price(bikes: int) -> int:
    return sum(n * n % 97 for n in range(bikes))


@app.get("/price/{bikes}")
async def quote(bikes: int) -> dict[str, int]:
    return {"cents": await greenlane.run(price, bikes)}
