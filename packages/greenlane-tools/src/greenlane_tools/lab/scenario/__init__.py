"""Scenarios as files: what is served, what is asked of it, what goes wrong, and the question that this answers.

scenario        the whole: question, cells, and its parts
service         a process that is started: command, files, readiness
request_class   requests of one kind: address, rate, arrivals, deadline
phase           a stretch of the load with a rate of its own
fault           what is done to a service at a time of the load
contender       one way to serve: what differs from the service as it stands
contrast        closed-loop tools beside the open loop
bound           an expectation that a run can check
placeholders    what braces in commands and environments stand for
rules           what only several keys together can get wrong
file            TOML to `Scenario`, with the errors of both
catalogue       scenarios by name: the wheel's and the checkout's
"""
