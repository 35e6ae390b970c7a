"""`wsgi.py` with Greenlane as its middleware: one line."""

from greenlane.hosts.wsgi import Greenlane
from shop.wsgi import application as plain

application = Greenlane(plain)
