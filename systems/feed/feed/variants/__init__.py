"""The ladder: ways to fetch records, make features, predict and sort. One file each; `table.py` names them."""
