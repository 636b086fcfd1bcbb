"""`python -I -m hearth.server`: the daemon, under the name that earlier versions wrote into units, plists and tasks.

Bridges that were started before an upgrade use this name, too.
"""

import runpy

runpy.run_module("hearth.daemon", run_name="__main__", alter_sys=True)
