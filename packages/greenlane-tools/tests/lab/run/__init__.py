"""Tests of runs of a scenario: arithmetic by hand, then real processes."""
