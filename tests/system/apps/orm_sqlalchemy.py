"""Flask with SQLAlchemy's ORM, on the database of DATABASE_URL; a pool of two for all threads."""

import os

import flask
from sqlalchemy import Integer, create_engine, event, func, pool, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tests.system.apps.work import Failure, burn

url = os.environ["DATABASE_URL"].replace("postgresql:", "postgresql+psycopg:")
engine = create_engine(url, poolclass=pool.QueuePool, pool_size=2, max_overflow=0, pool_timeout=30)

if engine.dialect.name == "sqlite":

    @event.listens_for(engine, "connect")
    def be_patient(connection, record):
        connection.isolation_level = None
        connection.execute("pragma busy_timeout=20000")

    @event.listens_for(engine, "begin")
    def lock_at_once(connection):
        connection.exec_driver_sql("begin immediate")


class Base(DeclarativeBase):
    pass


class Visit(Base):
    __tablename__ = "visit"
    id: Mapped[int] = mapped_column(primary_key=True)
    who: Mapped[int] = mapped_column(Integer, index=True)


def prepare() -> None:
    Base.metadata.create_all(engine)


application = flask.Flask(__name__)


@application.get("/heavy/<int:n>")
def heavy(n):
    with Session(engine) as session:
        session.add(Visit(who=n))
        session.flush()
        burn(6)  # a connection of two, and on sqlite the only write lock, are held meanwhile
        session.commit()
    total = burn(6)
    with Session(engine) as session:
        effects = session.scalar(select(func.count()).where(Visit.who == n))
    return {"n": n, "effects": effects, "sum": total}


@application.get("/light/<int:n>")
def light(n):
    with engine.connect() as connection:
        return {"n": n, "square": connection.scalar(text("select :n * :n"), {"n": n})}


@application.get("/fail/<int:n>")
def fail(n):
    with Session(engine) as session:
        session.add(Visit(who=n))
        session.flush()
        raise Failure


@application.get("/total")
def total():
    with Session(engine) as session:
        return {"total": session.scalar(select(func.count(Visit.id)))}
