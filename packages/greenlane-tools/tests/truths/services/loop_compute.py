"""FastAPI: totals are computed in a coroutine."""

from fastapi import FastAPI

app = FastAPI()


def totals():
    return sum(number * number % 7 for number in range(1_200_000))  # here


@app.get("/totals")
async def answer():
    return totals()  # here


@app.get("/ping")
async def ping():
    return "pong"
