"""Tests of scenario files: keys, rules, bounds, what is shipped."""
