"""FastAPI: asyncpg's pool; the upstream is asked inside of the transaction."""

import os
from contextlib import asynccontextmanager

import asyncpg
import httpx
from fastapi import FastAPI

http = httpx.AsyncClient(timeout=20)


@asynccontextmanager
async def opened(app):
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=3, max_size=3) as app.state.pool:
        yield


app = FastAPI(lifespan=opened)


@app.get("/transfer")
async def transfer():
    async with app.state.pool.acquire() as database, database.transaction():  # here
        await database.fetchval("select 7")  # here
        await http.get(os.environ["UPSTREAM"])  # here
