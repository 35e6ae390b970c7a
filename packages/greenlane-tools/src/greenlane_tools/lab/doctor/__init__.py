"""Which settings of a server's command do nothing, harm, or keep it from starting.

command     a command line, taken apart: server, interpreter, arguments, environment
asked/      programs that the command's own interpreter runs: version, effective settings, what its source does
asking      runs them
subject     what came of it, and what this machine says
finding     a verdict with its reason, remedy and evidence
rules_…     one file a server
live        starts the command for real and counts its listeners
"""
