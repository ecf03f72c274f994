"""exit_code.py CODE COMMAND...: fails unless the command ends with this code, with nothing on standard output if that is not 0."""

import subprocess
import sys

expected, command = int(sys.argv[1]), sys.argv[2:]
done = subprocess.run(command, capture_output=True, text=True)
if done.returncode != expected or (expected and done.stdout):
    print(f"{command}: exit code {done.returncode}, expected {expected}\n{done.stdout}{done.stderr}")
    sys.exit(1)
