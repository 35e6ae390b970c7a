"""Proof of the README's claims and micro-benchmarks; run from a checkout, not shipped."""
