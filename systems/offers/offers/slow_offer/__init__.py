"""One slow offer, told by three clocks: the upstream's own, the wire's, the application's, and who ran meanwhile.

service    pricing under stock gunicorn with gevent, recorded by `greenlane record`; its upstreams; a relay before one
watched    what went past a relay between pricing and an upstream: when each request did, and its reply
staged     the construction: many heavy requests at the instant at which one offer waits for `routing`
case       what `greenlane report` says of the recording, beside the relay's clock: one object
verdicts   what must be shown of the staged case
"""
