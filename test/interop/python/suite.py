# SPDX-License-Identifier: Apache-2.0
"""All cases of this suite; arguments select some by a part of their names."""
import os
import sys

import cases_control  # noqa: F401  imported for their cases
import cases_crash  # noqa: F401
import cases_entity  # noqa: F401
import cases_flow  # noqa: F401
import cases_worker  # noqa: F401
import harness

failed_n = harness.report([word.replace(" ", "_") for word in sys.argv[1:]])
sys.stdout.flush()
# The SDK's threads may still wait for a server that is gone.
os._exit(1 if failed_n > 0 else 0)
