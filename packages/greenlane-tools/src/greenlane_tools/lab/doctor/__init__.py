"""Which settings of a server's command do nothing, harm, or keep it from starting.

command     a command line, taken apart: server, interpreter, arguments, environment; its interpreter asked
asked/      programs that the command's own interpreter runs: version, effective settings, what its source does
subject     the result, what this machine says, and findings
rules_…     one file a server
live        starts the command for real and counts its listeners
"""
