"""HAProxy as the front.

site            all that a configuration is made of, and how it is written
configuration   that to text; pure, as are its parts:
requests          who the client is; what is refused; a line for each request in the log
routing           which lane and backend a request goes to; the map of routes; lanes that may not take every place
found           where it is, its version, how to install it
runtime         its runtime socket
front           its process, kept running; what it says on stderr
"""
