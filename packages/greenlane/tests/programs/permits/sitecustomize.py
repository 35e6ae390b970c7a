"""Puts permits into each Python program that is run with this folder first in PYTHONPATH."""

from greenlane.wiring import process

process.start(host="the programs' tests")
