"""Makes the tables of the application named by APP."""

import importlib
import os

importlib.import_module(os.environ["APP"]).prepare()
