"""Scenarios as TOML files: what is served, what is asked of it, what goes wrong meanwhile, what is expected.

scenario, parts   the declarations
rules             what no single key can break, and what braces stand for
catalogue         a file read; those that have a name; a scenario with other numbers
"""
