#!/usr/bin/env python3
"""Checks what minic's shared libraries show to others and what they need.

    check_libraries.py LIBRARY...            exit 1 if a library shows other names than minic's
    check_libraries.py --alone FILE...       the same, and nothing but glibc and libgcc_s may be needed, in places relative
                                             to the file
    check_libraries.py --self-test           plants faults and checks that each is found

Needs nm and readelf. Programs show nothing, so for them only the second part counts.
"""

import re
import subprocess
import sys

OWN = re.compile(r"minic::|minic_\w+$|(?:typeinfo|typeinfo name|vtable) for minic::")
PRESENT = re.compile(r"(?:libc|libm|libdl|libpthread|librt|ld-linux-x86-64)\.so\.\d+$|libgcc_s\.so\.1$|libminic(?:_runtime)?\.so\.")


def export_faults(symbols):
    """`symbols`: what `nm -D -C` prints."""
    faults = []
    for line in symbols.splitlines():
        kind, name = re.match(r"\s*(?:[0-9a-f]+)?\s+(\w) (.*)", line).groups()
        if "@@" in name:
            name = name[:name.rindex("@@")]
        if kind == "u":
            faults.append(f"shares {name} with every other copy in the process (STB_GNU_UNIQUE)")
        elif kind == "A":  # The name of the version.
            continue
        elif kind in "Uwv":
            if "llvm::" in name:
                faults.append(f"asks others for {name}")
        elif not OWN.match(name):
            faults.append(f"shows {name}")
    return faults


def needed(dynamic):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)


def dependency_faults(dynamic):
    """`dynamic`: what `readelf -d` prints."""
    faults = [f"needs {name}" for name in needed(dynamic) if not PRESENT.match(name)]
    for paths in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
        faults += [f"looks for libraries in {path}" for path in paths.split(":") if path and not re.match(r"\$ORIGIN(/|$)", path)]
    return faults


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def newest_glibc(path):
    """(2, 36): the oldest glibc that has all that the file asks for."""
    return max((int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", run("readelf", "-V", "-W", str(path))))


def check(path, alone):
    path = str(path)
    dynamic = run("readelf", "-d", "-W", path)
    symbols = run("nm", "-D", "-C", path)
    faults = []
    if "(SONAME)" in dynamic:
        # Alone: LLVM is inside. Otherwise the shared LLVM is asked for its names.
        faults += [fault for fault in export_faults(symbols) if alone or not fault.startswith("asks")]
    if alone:
        faults += dependency_faults(dynamic)
    if "libminic_runtime" in path and any("LLVM" in name for name in needed(dynamic)):
        faults.append("needs LLVM")
    return [f"{path}: {fault}" for fault in faults]


def self_test():
    good = ("                 U malloc@GLIBC_2.2.5\n0000000000000000 A LIBMINIC_0.1\n"
            "00000000000a7dd0 T minic::llvmVersion[abi:cxx11]()@@LIBMINIC_0.1\n0000000000001000 T minic_api_version@@LIBMINIC_0.1\n"
            "0000000000001000 V vtable for minic::Device@@LIBMINIC_0.1\n                 w __cxa_finalize@GLIBC_2.2.5\n")
    assert export_faults(good) == [], export_faults(good)
    for planted, fault in [
        ("0000000000001000 T llvm::outs()", "shows llvm::outs()"),
        ("0000000000001000 W std::vector<minic::DType>::size()@@LIBMINIC_0.1", "shows std::vector<minic::DType>::size()"),
        ("0000000000001000 T LLVMInitializeNVPTXTarget", "shows LLVMInitializeNVPTXTarget"),
        ("0000000000001000 u minic::table@@LIBMINIC_0.1", "shares minic::table with every other copy in the process (STB_GNU_UNIQUE)"),
        ("                 U llvm::outs()", "asks others for llvm::outs()"),
    ]:
        assert export_faults(good + planted) == [fault], planted
    dynamic = " 0x1 (NEEDED)  Shared library: [libm.so.6]\n 0x1d (RUNPATH)  Library runpath: [$ORIGIN/../lib:]\n"
    assert dependency_faults(dynamic) == []
    for planted, fault in [
        (" 0x1 (NEEDED)  Shared library: [libz.so.1]", "needs libz.so.1"),
        (" 0x1 (NEEDED)  Shared library: [libstdc++.so.6]", "needs libstdc++.so.6"),
        (" 0x1d (RUNPATH)  Library runpath: [$ORIGIN:/usr/lib/llvm-22/lib]", "looks for libraries in /usr/lib/llvm-22/lib"),
        (" 0x1d (RPATH)  Library rpath: [$ORIGINAL]", "looks for libraries in $ORIGINAL"),
    ]:
        assert dependency_faults(dynamic + planted) == [fault], planted


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        sys.exit()
    alone = "--alone" in sys.argv
    found = [fault for path in sys.argv[1:] if path != "--alone" for fault in check(path, alone)]
    print("\n".join(found) or "no faults")
    sys.exit(bool(found))
