"""The sections of the report's page, one a file: each has `view(study)`, which gives `Html`, empty without a cause.

Drawings show the largest; a table below has everything, cut at `MOST_ROWS` with a word about it.
"""
