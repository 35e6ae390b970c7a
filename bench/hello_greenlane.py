"""`hello` under the middleware: the one line that it takes."""

from hello import application as hello

from greenlane.hosts.wsgi import Greenlane

application = Greenlane(hello)
