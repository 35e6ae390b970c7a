"""What measuring commands have in common: contenders in turns, raw samples, rows, claims, tables and a page.

command    a command from a dataclass of options: its help, its refusals, Ctrl-C
program    contenders take turns; one run in a process of its own that does not outlive us
result     what came out: the text, one JSON object, samples as Parquet, the page
"""
