"""CPython's tests of multiprocessing for the start method that the command line names.

Some installed interpreters lack `test.test_multiprocessing_*`, which are these lines; what they call is there. Where
each child is a new interpreter, what has many of them and shows the same under fork is left out.
"""

import sys
import unittest

from test import _test_multiprocessing

_test_multiprocessing.install_tests_in_module_dict(globals(), sys.argv[1])
if sys.argv[1] != "fork":
    for name in ("Barrier", "Condition", "Finalize", "Poll", "PollEintr", "Pool"):
        del globals()[f"WithProcessesTest{name}"]
    del _test_multiprocessing._TestProcess.test_many_processes

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", "-k", "WithProcesses"])
