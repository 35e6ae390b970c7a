"""Flask, psycopg_pool: statistics that take the database 0.8 s share two connections with what needs 6 ms."""

import os

from flask import Flask
from psycopg_pool import ConnectionPool

app = Flask(__name__)
pool = ConnectionPool(os.environ["DATABASE_URL"], min_size=2, max_size=2, open=True)


@app.get("/stats")
def stats():
    with pool.connection() as database:  # here
        database.execute("select pg_sleep(0.8)")  # here
    return "stats"


@app.get("/media")
def media():
    with pool.connection() as database:
        return str(database.execute("select pg_sleep(0.006)").rowcount)
