"""A command as a person types it: `python person.py OUT COMMAND…` runs it in an orphan, below no client of Hearth.

The outcome is written to the file OUT as JSON, which appears whole.
"""

import json
import os
import subprocess
import sys

if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    out, *command = sys.argv[1:]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    with open(out + ".new", "w") as file:
        json.dump({"pid": os.getpid(), "code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}, file)
    os.rename(out + ".new", out)
