"""The first-level models: a process each, asked over HTTP for candidates."""
