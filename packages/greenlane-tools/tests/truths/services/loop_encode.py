"""FastAPI: 5,000 rows are checked and encoded on the loop, after the endpoint has ended."""

from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()


class Row(BaseModel):
    number: int
    name: str
    tags: list[str]


rows = [{"number": number, "name": f"row {number}", "tags": ["a", "b"]} for number in range(8_000)]


@app.get("/rows")  # here
async def every() -> list[Row]:  # here
    return rows  # here


@app.get("/ping")
async def ping():
    return "pong"
