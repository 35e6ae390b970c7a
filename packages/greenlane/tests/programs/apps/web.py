"""A WSGI application that computes and waits, for servers that fork."""

import os
import threading
import time

if os.environ.get("MIDDLEWARE"):
    from greenlane.hosts.wsgi import Greenlane as middleware
else:

    def middleware(wsgi):
        return wsgi


def application(environ, start_response):
    found = []
    thread = threading.Thread(target=lambda: found.append(sum(number * number for number in range(2000))))
    thread.start()
    time.sleep(0.002)
    thread.join()
    body = f"{environ['PATH_INFO']} {found[0]}\n".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


application = middleware(application)
