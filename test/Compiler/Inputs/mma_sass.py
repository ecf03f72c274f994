#!/usr/bin/env python3
"""Assembles PTX and says what became of a product on the tensor cores of a warp.

    mma_sass.py PTX TARGET [--sequence]

Fails where ptxas refuses it or a kernel spills. Prints registers and, of each loop with products, how many instructions of each kind there are: SASS has
16 bytes an instruction, the opcode in the low 12 bits (numbers found by assembling one of each). --sequence prints the loop's in order.
"""
import collections
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

NAMES = {0x23C: "HMMA", 0x237: "IMMA", 0x23F: "DMMA", 0xFAE: "LDGSTS", 0x83B: "LDSM", 0xB1D: "BAR", 0x91A: "DEPBAR", 0x387: "STL", 0x983: "LDL", 0x947: "BRA"}


def sections(cubin):
    """Names and bytes of the code in an ELF file."""
    start, = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    heads = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + i * size) for i in range(count)]
    for head in heads:
        name = cubin[heads[names][4] + head[0]:].split(b"\0", 1)[0].decode()
        if name.startswith(".text."):
            yield name[len(".text."):], cubin[head[4]:head[4] + head[5]]


def loops(code):
    """From where a branch leads back to, to the branch."""
    words = [struct.unpack_from("<QQ", code, at) for at in range(0, len(code), 16)]
    for at, (low, high) in enumerate(words):
        if low & 0xFFF != 0x947:
            continue
        # 50 bits from bit 32 on, in units of 4 bytes and from the next instruction on; older encodings use fewer.
        distance = (low >> 32 | (high & 0x3FFFF) << 32) & ((1 << 50) - 1)
        distance -= (distance >> 49) << 50
        for to in {at + 1 + distance // 16, at + 1 + distance // 4}:
            if 0 <= to < at:
                yield [NAMES.get(word & 0xFFF, "") for word, _ in words[to:at + 1]]


def main():
    ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "k.cubin")
        done = subprocess.run([ptxas, "-v", "-arch=" + sys.argv[2], sys.argv[1], "-o", path], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        cubin = open(path, "rb").read()
    registers = re.findall(r"Used (\d+) registers", done.stderr)
    spilled = [line for line in done.stderr.splitlines() if "spill" in line and "0 bytes spill stores, 0 bytes spill loads" not in line]
    print(sys.argv[2], "registers:", *registers, "spills:" if spilled else "no spills", *spilled)
    for name, code in sections(cubin):
        found = [loop for loop in loops(code) if "BAR" in loop and ("HMMA" in loop or "IMMA" in loop or "DMMA" in loop)]
        for loop in sorted(found, key=len)[:1]:
            counts = collections.Counter(loop)
            text = ", ".join(f"{counts[kind]} {kind}" for kind in NAMES.values() if counts[kind])
            print(f"{name}: a loop of {len(loop)} with {text}, {counts['']} others")
            if "--sequence" in sys.argv:
                print(" ".join(f"{kind or '.'}" for kind in loop))
    sys.exit(1 if spilled else 0)


main()
