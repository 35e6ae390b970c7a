"""HAProxy as the front.

site            all that a configuration is made of
configuration   that to text; pure, as are its parts:
told_apart        which lane is a request's
gates             lanes that may not take every place
diverted          shares that go to another version
peers, requests   who the client is; what is refused
sockets, tls      WebSockets, TLS
access_log        a line for each request
words             how things are written
found           where it is, its version, how to install it
assigned        which lane a route has, changed live
runtime         its runtime socket
front           its process
said            what it says on stderr
"""
