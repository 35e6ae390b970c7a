"""FastAPI: psycopg without asyncio in a coroutine."""

import os

import psycopg
from fastapi import FastAPI

app = FastAPI()
database = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)


@app.get("/sum")
async def total():
    return database.execute("select pg_sleep(0.25)").rowcount  # here


@app.get("/ping")
async def ping():
    return "pong"
