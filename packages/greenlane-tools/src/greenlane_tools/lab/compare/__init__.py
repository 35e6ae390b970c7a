"""Results laid over each other: better, worse, or the same (`greenlane lab compare`).

subject       what is compared: runs by cell, and where they come from
sources       what an argument of the command names, read: samples of files, runs of recordings
repetitions   one side's samples by repetition, as the statistics need them, by endpoint
study         every comparison, and how many there were
verdicts      what is compared; better, worse, same; why; how many repetitions it would take
cautions      what makes a comparison less than it seems
rows, page    the result, in words
"""
