"""Scenarios as TOML files: what is served, what is asked of it, what goes wrong meanwhile, what is expected.

scenario, request_class, parts   the declarations
file                             a file read
rules                            what no single key can break, and what braces stand for
catalogue                        those that have a name; a scenario with other numbers
"""
