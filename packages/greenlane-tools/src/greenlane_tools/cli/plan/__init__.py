"""`greenlane plan …`: one file a subcommand; `group` puts them together."""
