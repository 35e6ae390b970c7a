"""The application named by APP, in the middleware: what a user writes in one line."""

import importlib
import os

from greenlane.hosts.wsgi import Greenlane

application = Greenlane(importlib.import_module(os.environ["APP"]).application)
