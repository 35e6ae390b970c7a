"""The ladder: ways to fetch records, make features, predict and sort. One file each; `ranking.py` names them."""
