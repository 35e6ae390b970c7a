"""HAProxy as the front.

words           text that means itself in its configuration
configuration   layout and servers to text; pure
found           where it is, its version, how to install it
assigned        which lane a route has, changed live
runtime         its runtime socket
front           its process
"""
