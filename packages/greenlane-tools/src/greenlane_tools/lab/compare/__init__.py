"""Results laid over each other: better, worse, or the same (`greenlane lab compare`).

sources    what is compared, and what an argument of the command names, read: files and recordings
study      every comparison, how many there were, and what makes one less than it seems
verdicts   one side's samples by repetition; better, worse, same; why; how many repetitions it would take
page       the result, in words
"""
