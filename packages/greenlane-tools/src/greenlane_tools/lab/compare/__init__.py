"""Results laid over each other: better, worse, or the same (`greenlane lab compare`).

subject       what is compared: runs by cell, and where they come from
tables        runs from Parquet and CSV files of samples
recorded      runs from recordings
sources       what an argument of the command names, read
quantities    what is compared of an endpoint, and which way is better
repetitions   one side's samples by repetition, as the statistics need them
place         an endpoint of a cell, and what each side did there
study         every comparison, and how many there were
verdicts      better, worse, same; why; how many repetitions it would take
cautions      what makes a comparison less than it seems
words         values and changes in words
rows, page    the result
"""
