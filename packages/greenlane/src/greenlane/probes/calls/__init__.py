"""Calls of upstreams, written down: which service, which operation, how long on the wire, how long unread.

- `clients` — `install` and `uninstall` all clients at once, in what is imported and in what will be; `absent`:
  names that the installed versions of clients do not have although the probes ask for them

| client | a call is | its deadline |
|---|---|---|
| requests | `Session.send`, redirects and body included (`stream=True`: until the headers) | read timeout |
| urllib3 | `HTTPConnectionPool.urlopen`, retries included | `total`, else read timeout |
| http.client | from `putrequest` until `getresponse` gives the headers | the connection's timeout |
| httpx | `Client.send` and `AsyncClient.send`, likewise | read timeout |
| aiohttp | `ClientSession._request` until the body is read, or the response is released | `total`, else `sock_read` |
| redis-py | a command, or a pipeline's `execute` | `socket_timeout` |
| psycopg 3, psycopg2 | a statement, commit or rollback; `connect` | `connect_timeout` of `connect` |
| asyncpg | a statement, `BEGIN` and `COMMIT` included; `connect` | none |
| SQLAlchemy | a statement, whatever the driver; never SQLite | none |
| Celery, kombu | a message published; it carries the headers of `greenlane.probes.enqueued` | `timeout` |

The outermost counts: requests over urllib3 over http.client is one call of requests. Waits for a free connection of a
pool are waits of the kind pool; `pools` lists the pools, and says who holds their connections meanwhile.

`span` holds how a call is measured, `naming` what upstream and operation are called.

Nothing is on the path before `install` and after `uninstall`; while recording is switched off, one native call.
"""
