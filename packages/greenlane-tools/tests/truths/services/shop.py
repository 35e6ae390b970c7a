"""Flask: a shop with pages from a database, exports, pictures, invoices, logins and a partner's prices.

It is also what the scenario `shop` of lab/scenarios asks, with other sizes.
"""

import io
import os

import bcrypt
import httpx
from flask import Flask, Response, jsonify, render_template_string, request
from PIL import Image, ImageDraw, ImageFilter
from reportlab.lib.pagesizes import A4
from reportlab.platypus import SimpleDocTemplate, Table
from sqlalchemy import create_engine, insert, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

app = Flask(__name__)
http = httpx.Client(timeout=20)
engine = create_engine(os.environ["DATABASE_URL"], pool_size=20)
secret = bcrypt.hashpw(b"secret", bcrypt.gensalt(9))
PAGE = "<ul>{% for item in items %}<li>{{ item.name }}: {{ item.price }}</li>{% endfor %}</ul>"


class Base(DeclarativeBase):
    pass


class Item(Base):
    __tablename__ = "items"
    number: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    price: Mapped[int]


Base.metadata.drop_all(engine)
Base.metadata.create_all(engine)
with engine.begin() as begun:
    begun.execute(insert(Item), [{"number": n, "name": f"item {n}", "price": n * 7} for n in range(1, 5001)])


def asked(name, usual):
    return request.args.get(name, usual, int)


@app.get("/health")
def health():
    return "ok"


@app.get("/page")
def page():
    with Session(engine) as database:
        items = [database.get(Item, number * 100) for number in range(1, 1 + asked("items", 8))]
    return render_template_string(PAGE, items=items)


@app.get("/export")
def export():
    with Session(engine) as database:
        items = database.scalars(select(Item)).all()
        return jsonify([{"number": item.number, "name": item.name, "price": item.price} for item in items])


@app.get("/picture")
def picture():
    width = asked("width", 400)
    image = Image.new("RGB", (width, 300), "white")
    ImageDraw.Draw(image).ellipse((50, 50, width - 50, 250), fill="teal")
    written = io.BytesIO()
    image.filter(ImageFilter.GaussianBlur(3)).save(written, "png")
    return Response(written.getvalue(), mimetype="image/png")


@app.get("/invoice")
def invoice():
    written = io.BytesIO()
    rows = [[f"item {number}", str(number), str(number * 7)] for number in range(asked("rows", 3000))]
    SimpleDocTemplate(written, pagesize=A4).build([Table(rows)])  # here
    return Response(written.getvalue(), mimetype="application/pdf")


@app.get("/login")
def login():
    return str(bcrypt.checkpw(b"secret", secret))


@app.get("/price")
def price():
    return http.get(os.environ["UPSTREAM"]).text
