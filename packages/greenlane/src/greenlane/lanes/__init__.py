"""The shells that control: `permits` and what they learn, `learned` (their file), `rules` of lanes."""
