"""Tests of the demo's arithmetic, load, page and command line, and of the proof's."""
