"""CPython's tests of multiprocessing for the start method that the command line names.

Some installed interpreters lack `test.test_multiprocessing_*`, which are these lines; what they call is there.
"""

import sys
import unittest

from test import _test_multiprocessing

_test_multiprocessing.install_tests_in_module_dict(globals(), sys.argv[1])

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", "-k", "WithProcesses"])
