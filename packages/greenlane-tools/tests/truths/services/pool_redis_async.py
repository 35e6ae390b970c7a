"""FastAPI: redis-py's blocking pool for asyncio; readers of a stream keep both connections."""

import os

import redis.asyncio as redis
from fastapi import FastAPI

app = FastAPI()
pool = redis.BlockingConnectionPool.from_url(os.environ["REDIS_URL"], max_connections=2, timeout=20)
store = redis.Redis(connection_pool=pool)


@app.get("/news")
async def news():
    return str(await store.xread({"news": "$"}, block=800))  # here


@app.get("/cart")
async def cart():
    return str(await store.get("cart"))
