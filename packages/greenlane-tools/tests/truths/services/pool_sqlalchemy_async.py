"""FastAPI: SQLAlchemy's asyncio engine; a transaction stays open while an upstream is asked."""

import os

import httpx
from fastapi import FastAPI
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

app = FastAPI()
http = httpx.AsyncClient(timeout=20)
url = os.environ["DATABASE_URL"].replace("postgresql", "postgresql+asyncpg")
engine = create_async_engine(url, pool_size=3, max_overflow=0)


@app.get("/order")
async def order():
    async with engine.connect() as database:  # here
        number = (await database.execute(text("select 7"))).scalar()  # here
        await http.get(os.environ["UPSTREAM"])  # here
    return {"number": number}
