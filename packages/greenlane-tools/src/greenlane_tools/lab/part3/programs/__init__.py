"""The runtimes' programs: `python -m greenlane_tools.lab.part3.programs.<name> JOB`, and one for node.

Each runs N requests at a time in the way its runtime's users write it and leaves what it saw in a file (`program`).
"""
