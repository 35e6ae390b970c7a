"""Drawings for the documents, made from the ladder's rows.

python -m feed.drawings out/demo/feed/rows.json
"""
