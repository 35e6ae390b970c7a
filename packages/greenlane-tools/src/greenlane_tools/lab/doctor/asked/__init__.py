"""Programs that run in the interpreter of somebody else's command and tell what its server would do; one a server.

They import nothing of ours and nothing of the application: the server's own code reads its own settings.
"""
