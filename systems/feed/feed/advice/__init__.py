"""The article's advice as switches, each measured here: `python -m feed.advice [--only json,formats] [--json]`.

json_libraries, validation, formats, compression, collector    the switches
measure, row, table, page                                      how they are measured and told
"""
