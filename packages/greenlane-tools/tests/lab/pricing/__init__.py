"""Tests of the pricing demo: what is its own; the lab does the rest."""
