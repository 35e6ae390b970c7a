"""`greenlane lab …`: one file a subcommand; `group` puts them together."""
