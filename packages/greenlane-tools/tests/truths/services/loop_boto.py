"""FastAPI: boto3 in a coroutine."""

import os

import boto3
from fastapi import FastAPI

app = FastAPI()
store = boto3.client(
    "s3", endpoint_url=os.environ["UPSTREAM"], region_name="x", aws_access_key_id="x", aws_secret_access_key="x"
)


@app.get("/photo")
async def photo():
    answer = store.get_object(Bucket="photos", Key="one")  # here
    return {"bytes": len(answer["Body"].read())}


@app.get("/ping")
async def ping():
    return "pong"
