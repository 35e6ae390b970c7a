"""Tests of the claims: a test's name says what holds."""
