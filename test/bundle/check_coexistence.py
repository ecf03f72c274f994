#!/usr/bin/env python3
"""Checks that minic compiles in one process with other LLVMs, whichever is loaded first, with all of their names visible to all.

    check_coexistence.py BUILD      BUILD: a folder that was built with MINIC_STATIC_LLVM

Takes every libLLVM that is installed below /usr/lib, and all of them together.
"""

import ctypes
import glob
import os
import pathlib
import subprocess
import sys


def installed_llvms():
    found = {os.path.realpath(path) for path in glob.glob("/usr/lib/llvm-*/lib/libLLVM*.so*") + glob.glob("/usr/lib/*/libLLVM*.so*")}
    return sorted(path for path in found if pathlib.Path(path).name.startswith(("libLLVM-", "libLLVM.so")))


def compile_with(build, preloaded):
    """What `minic compile` prints with these libraries before all others in the process."""
    environment = dict(os.environ, LD_PRELOAD=":".join(map(str, preloaded)))
    command = [build / "bin/minic", "compile", pathlib.Path(__file__).parents[2] / "examples/softmax.ir", "--emit=ptx"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    return done.stdout if done.returncode == 0 and not done.stderr else f"exit code {done.returncode}\n{done.stderr}"


def load(libraries):
    """In a process of its own: opens the libraries in order, their names visible to those that come later."""
    for library in libraries:
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)


def main(build):
    llvms = installed_llvms()
    if not llvms:
        sys.exit("no libLLVM is installed")
    library = build / "lib/libminic.so"
    expected = compile_with(build, [])
    if ".target sm_90a" not in expected:
        sys.exit(f"minic does not compile: {expected}")
    faults = []
    for others in [[llvm] for llvm in llvms] + [llvms]:
        for order in [[*others, library], [library, *others]]:
            if compile_with(build, order) != expected:
                faults.append(f"compiling with {order}: {compile_with(build, order)}")
            done = subprocess.run([sys.executable, __file__, "--load", *map(str, order)], capture_output=True, text=True)
            if done.returncode:
                faults.append(f"loading {order}: exit code {done.returncode} {done.stderr}")
    print("with", *llvms)
    print("\n".join(faults) or "no faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    if sys.argv[1] == "--load":
        load(sys.argv[2:])
    else:
        main(pathlib.Path(sys.argv[1]).resolve())
