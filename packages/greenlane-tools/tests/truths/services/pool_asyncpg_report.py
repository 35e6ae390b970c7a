"""FastAPI: asyncpg's pool; reports of half a second take both connections."""

import os
from contextlib import asynccontextmanager

import asyncpg
from fastapi import FastAPI


@asynccontextmanager
async def opened(app):
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=2, max_size=2) as app.state.pool:
        yield


app = FastAPI(lifespan=opened)


@app.get("/report")
async def report():
    await app.state.pool.fetchval("select pg_sleep(0.5)")  # here


@app.get("/user")
async def user():
    return await app.state.pool.fetchval("select 7")
