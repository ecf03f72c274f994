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

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "examples/softmax.ir"


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


def compile_beside(libraries):
    """Opens the libraries in order, their names visible to those that come later, and compiles with the one that is minic."""
    for library in libraries:
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    import minic
    print(minic.emit(SOURCE, "ptx"), end="")


def main(build):
    llvms = installed_llvms()
    if not llvms:
        sys.exit("no libLLVM is installed")
    library = build / "lib/libminic.so"
    package = {"MINIC_LIBRARY": str(library), "PYTHONPATH": str(ROOT / "tools/python")}
    compiling = [build / "bin/minic", "compile", SOURCE, "--emit=ptx"]
    expected = run(*compiling)
    if ".target sm_90a" not in expected:
        sys.exit(f"minic does not compile: {expected}")
    faults = []
    for others in [[llvm] for llvm in llvms] + [llvms]:
        for order in [[*others, library], [library, *others]]:
            names = ", ".join(pathlib.Path(path).name for path in order)
            if (printed := run(*compiling, LD_PRELOAD=":".join(map(str, order)))) != expected:
                faults.append(f"compiling after {names} were loaded: {printed[:500]}")
            if (printed := run(sys.executable, "-B", __file__, "--beside", *order, **package)) != expected:
                faults.append(f"opening {names} and compiling: {printed[:500]}")
    print("with", *llvms)
    print("\n".join(faults) or "no faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    if sys.argv[1] == "--beside":
        compile_beside(sys.argv[2:])
    else:
        main(pathlib.Path(sys.argv[1]).resolve())
