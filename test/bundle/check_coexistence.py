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


def run(*command, **environment):
    """Standard output, or what went wrong."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, env=dict(os.environ, **environment), capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "hangs"
    return done.stdout if done.returncode == 0 and not done.stderr else f"exit code {done.returncode} {done.stderr[:500]}"


def load(libraries):
    """Opens the libraries in order, their names visible to those that come later."""
    for library in libraries:
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)


def main(build):
    llvms = installed_llvms()
    if not llvms:
        sys.exit("no libLLVM is installed")
    library = build / "lib/libminic.so"
    compiling = [build / "bin/minic", "compile", pathlib.Path(__file__).parents[2] / "examples/softmax.ir", "--emit=ptx"]
    expected = run(*compiling)
    if ".target sm_90a" not in expected:
        sys.exit(f"minic does not compile: {expected}")
    faults = []
    for others in [[llvm] for llvm in llvms] + [llvms]:
        for order in [[*others, library], [library, *others]]:
            names = ", ".join(pathlib.Path(path).name for path in order)
            if (printed := run(*compiling, LD_PRELOAD=":".join(map(str, order)))) != expected:
                faults.append(f"compiling after {names} were loaded: {printed[:500]}")
            if printed := run(sys.executable, __file__, "--load", *order):
                faults.append(f"loading {names}: {printed}")
    print("with", *llvms)
    print("\n".join(faults) or "no faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    if sys.argv[1] == "--load":
        load(sys.argv[2:])
    else:
        main(pathlib.Path(sys.argv[1]).resolve())
