"""The typed face of greenlane-policy's decisions, one subject a file: `permits`, `placed`, `shed`. No rule of its own.

Settings become arguments of the native classes here, in their units and under their names.
"""
