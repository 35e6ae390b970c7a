"""The sections of the report's page: each `…_view(study)` gives one as `Html`, empty without a cause.

Drawings show the largest; a table below has everything, cut at `MOST_ROWS` with a word about it.
"""
