"""The proof: the present and the recommended set-up under load, in the lab, beside what was predicted.

proof      both set-ups as contenders of the lab, served and measured
scenarios  what is asked: the profile's twin, or a scenario of the lab with the profile's rates
played     the twin's application, which does what a profile says: a program of its own, served like any other
compared   a prediction beside a measurement
"""
