"""The pricing demo: its scenario run, told and drawn (`greenlane demo pricing`).

mixes          the scenario, and other shares of its endpoints
alone          what the endpoints' own functions take, without a server around
options        the command line
conclusion     the one sentence
strips, page   what is drawn of it
command        all of it in turn
"""
