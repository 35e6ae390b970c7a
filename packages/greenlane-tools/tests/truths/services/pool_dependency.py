"""FastAPI: a session for each request keeps its connection while an upstream is asked."""

import os

import httpx
from fastapi import Depends, FastAPI
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

app = FastAPI()
http = httpx.Client(timeout=20)
engine = create_engine(os.environ["DATABASE_URL"], pool_size=5, max_overflow=0, pool_timeout=10)


def session():
    with Session(engine) as opened:
        yield opened


@app.get("/quote")
def quote(database: Session = Depends(session)):  # noqa: B008
    rate = database.execute(text("select 7")).scalar()  # here
    answer = http.get(os.environ["UPSTREAM"])  # here
    return {"rate": rate, "answer": answer.text}
