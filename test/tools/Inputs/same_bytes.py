"""same_bytes.py FILE N COMMAND...: fails unless N runs of the command print exactly the bytes of FILE."""

import pathlib
import subprocess
import sys

expected, count, command = pathlib.Path(sys.argv[1]).read_bytes(), int(sys.argv[2]), sys.argv[3:]
for i in range(count):
    if subprocess.run(command, capture_output=True, check=True).stdout != expected:
        sys.exit(f"run {i} differs")
