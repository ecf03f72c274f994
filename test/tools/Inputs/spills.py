"""spills.py PTX TARGET: assembles the file and fails if a kernel spills registers or uses local memory."""

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
if done.returncode or not spilled or any(spilled) or re.search(r"\b(ld|st)\.local", pathlib.Path(ptx).read_text()):
    sys.exit(f"{ptx}: exit code {done.returncode}\n{done.stderr}")
print("no spills")
