#!/usr/bin/env python3
"""Assembles the PTX of random matmuls: ptxas spills nothing and warns of nothing. Needs no GPU.

    PYTHONPATH=tools/python test/gpu/check_assembly.py [--count N] [--seed N] [--large]

The matmuls are those of check_matmul.py. A warning of ptxas's (C7508, C7510 and on) says that wgmma is serialized or setmaxnreg
ignored.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import check_matmul
import minic
import products


def assembler():
    found = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    return found if os.access(found, os.X_OK) else None


def complaints(ptxas, ptx):
    """What ptxas says of spills, and its warnings; empty if all is well."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "kernel.ptx"
        path.write_text(ptx)
        arch = re.search(r"^\.target (\w+)", ptx, re.MULTILINE)[1]
        done = subprocess.run([ptxas, f"-arch={arch}", "-v", str(path), "-o", str(path.with_suffix(".cubin"))], capture_output=True, text=True)
    lines = (done.stdout + done.stderr).splitlines()
    if done.returncode:
        return lines
    spills = [line for line in lines if "spill" in line and not re.search(r"\b0 bytes spill stores, 0 bytes spill loads", line)]
    return spills + [line for line in lines if re.search(r"\(C\d+\)|warning", line)]


def main():
    options = products.arguments(__doc__, 40, device=False).parse_args()
    ptxas = assembler()
    if not ptxas:
        print("skipped: there is no ptxas")
        return 0
    if not complaints(ptxas, ".version 8.0\n.target sm_90a\n.address_size 64\n.entry k() { broken }\n"):
        print("ptxas took what is no PTX")
        return 1
    check = lambda combination, _: complaints(ptxas, minic.emit(combination.text, "ptx"))
    failed = products.check_all(options, lambda rng: check_matmul.Combination(rng, options.large), check)
    print(f"{options.count} combinations assembled, {failed} complaints")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
