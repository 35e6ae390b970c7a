"""Programs that run in the interpreter of somebody else's command and tell what its server would do; one a server.

They import neither Greenlane nor the application: the server's own code reads its own settings.
"""
