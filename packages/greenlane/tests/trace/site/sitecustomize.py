"""Takes the first look at a process: before anything of Greenlane, and after what its host imports anyway."""

import importlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
import traced

traced.snapshot.note_hooks()
for _name in os.environ["TRACE_IMPORTS"].split(","):
    importlib.import_module(_name)
traced.begin()
