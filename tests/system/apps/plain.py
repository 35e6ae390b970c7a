"""The application named by APP, without the middleware: for hosts that bring Greenlane themselves."""

import importlib
import os

application = importlib.import_module(os.environ["APP"]).application
