"""The proof: the present and the recommended set-up under load, in the lab, beside what was predicted.

played      a WSGI application that does what a profile says: a program of its own, served like any other
twin        the scenario of a profile: that application, its routes at their rates
named       a scenario of the lab with the profile's rates: the real service, where the lab has it
contenders  a set-up as a contender: commands, arguments, settings
replay      a prediction for the very requests that were sent
compared    a prediction beside a measurement
reasons     why a prediction missed
proof       runs it and lays both beside each other
"""
