"""FastAPI: psycopg's asyncio pool; a report sleeps in the database."""

import os
from contextlib import asynccontextmanager

from fastapi import FastAPI
from psycopg_pool import AsyncConnectionPool

pool = AsyncConnectionPool(os.environ["DATABASE_URL"], min_size=2, max_size=2, open=False)


@asynccontextmanager
async def opened(app):
    async with pool:
        yield


app = FastAPI(lifespan=opened)


@app.get("/report")
async def report():
    async with pool.connection() as database:  # here
        await database.execute("select pg_sleep(0.6)")  # here


@app.get("/user")
async def user():
    async with pool.connection() as database:
        await database.execute("select 7")
