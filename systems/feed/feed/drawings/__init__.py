"""Drawings for the documents, made from the ladder's rows.

python -m feed.drawings --rows rows.json --out drawings
"""
