"""FastAPI: a query that takes the database 400 ms."""

import os

import asyncpg
from fastapi import FastAPI

app = FastAPI()


@app.get("/search")
async def search():
    database = await asyncpg.connect(os.environ["DATABASE_URL"])
    await database.execute("select pg_sleep(0.4)")  # here
    await database.close()
