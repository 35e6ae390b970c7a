"""Where settings come from: `file` (greenlane.toml), `environment`, `flags`. Each gives (name, value, origin), checked.

`lanes` comes as {lane: {key: value}}, its keys checked one by one (`lane_tables`). What is common to a lane is for
`greenlane.settings.lane.Lane` to check.
"""
