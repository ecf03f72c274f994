"""closed_pipe.py COMMAND...: runs the command with a standard output that nobody reads; prints its exit code and its errors."""

import os
import subprocess
import sys

read, write = os.pipe()
os.close(read)
done = subprocess.run(sys.argv[1:], stdout=write, stderr=subprocess.PIPE, text=True)
print(f"{done.returncode}: {done.stderr}", end="")
