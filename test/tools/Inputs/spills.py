"""spills.py PTX TARGET: assembles the file and fails if a kernel spills registers, uses local memory, or has its wgmmas put one after
the other (ptxas says so in remarks C75xx)."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ptx, target = sys.argv[1:]
ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
done = subprocess.run([ptxas, f"-arch={target}", "-v", "-o", os.devnull, ptx], capture_output=True, text=True)
spilled = [int(n) for n in re.findall(r"(\d+) bytes (?:stack frame|spill)", done.stderr)]
serialized = re.search(r"\bC75\d\d\b|serialized", done.stderr)
if done.returncode or not spilled or any(spilled) or serialized or re.search(r"\b(ld|st)\.local", pathlib.Path(ptx).read_text()):
    sys.exit(f"{ptx}: exit code {done.returncode}\n{done.stderr}")
print("no spills")
