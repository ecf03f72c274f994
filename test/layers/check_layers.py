#!/usr/bin/env python3
"""Checks that the rooms of minic keep to their layers.

A room may include its own headers and those of the rooms that it uses, directly or through others; what it uses stands in
lib/CMakeLists.txt (`minic_room(Name USES minicA minicB)`). A header right below include/minic is of no room: it may include all
rooms, and none includes it. LLVM's headers are for lib/CodeGen alone, the CUDA driver's names and the dynamic loader for the Runtime
room alone.

    check_layers.py ROOT           checks a source tree; exit 1 if it finds a fault
    check_layers.py --self-test    plants faults in a small tree and checks that each is found
"""

import pathlib
import re
import sys
import tempfile

ROOM = re.compile(r"minic_room\(\s*(\w+)(?:\s+APART)?(?:\s+USES\s+([\w\s]*))?\)")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]minic/(\w+)/', re.M)
UMBRELLA = re.compile(r'^\s*#\s*include\s*[<"]minic/[^/">]*[">]', re.M)
LLVM = re.compile(r'^\s*#\s*include\s*[<"]llvm(?:-c)?/', re.M)
CUDA = re.compile(r"\bdl(?:open|sym)\s*\(|\bcu(?:[A-Z]|blasLt)\w*\s*\(|\bCU(?:result|device|context|stream|event|module|function)\b"
                  r'|libcuda\b|^\s*#\s*include\s*[<"]cuda', re.M)
SUFFIXES = {".h", ".cpp", ".def"}


def read_rooms(text):
    """{room: rooms that it may include}, or a list of faults."""
    text = re.sub(r"#.*", "", text)
    uses = {name: [u.removeprefix("minic") for u in (used or "").split()] for name, used in ROOM.findall(text)}
    faults = [f"lib/CMakeLists.txt: {room} uses {used}, which is no room" for room, list_ in uses.items() for used in list_
              if used not in uses]
    reach = {}

    def visit(room, path):
        if room in path:
            faults.append("lib/CMakeLists.txt: a cycle: " + " -> ".join(path + [room]))
            return set()
        if room not in reach:
            found = {room}
            for used in uses.get(room, []):
                found |= visit(used, path + [room])
            reach[room] = found
        return reach[room]

    for room in uses:
        visit(room, [])
    return reach, faults


def without_comments(text):
    """The text with comments blanked and lines kept."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group())
    return re.sub(r"//[^\n]*|/\*.*?\*/", blank, text, flags=re.S)


def check(root):
    root = pathlib.Path(root)
    rooms, faults = read_rooms((root / "lib/CMakeLists.txt").read_text())
    if not rooms:
        faults.append("lib/CMakeLists.txt: no minic_room(...) found")
    for top in ("include/minic", "lib", "tools", "examples"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            name = path.relative_to(root).as_posix()
            parts = path.relative_to(root / top).parts
            umbrella = top == "include/minic" and len(parts) == 1
            room = parts[0] if top in ("include/minic", "lib") and not umbrella else None
            text = path.read_text(errors="replace")
            code = without_comments(text)

            def fault(match, message):
                faults.append(f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {message}")

            if room is not None:
                if room not in rooms:
                    faults.append(f"{name}: {room} is no room of lib/CMakeLists.txt")
                    continue
                for match in UMBRELLA.finditer(text):
                    fault(match, f"{room} includes a header of no room")
                for match in INCLUDE.finditer(text):
                    if match.group(1) not in rooms[room]:
                        fault(match, f"{room} includes {match.group(1)}, which it does not use")
            if not name.startswith("lib/CodeGen/"):
                for match in LLVM.finditer(text):
                    fault(match, "LLVM's headers are for lib/CodeGen alone")
            if room != "Runtime":
                for match in CUDA.finditer(code):
                    fault(match, f"`{match.group().strip()}`: the CUDA driver and the dynamic loader are for Runtime alone")
    return faults


def self_test():
    base = {
        "lib/CMakeLists.txt": "minic_room(Support)\nminic_room(IR USES minicSupport)\nminic_room(CodeGen USES minicIR)\n"
                              "minic_room(Runtime APART USES minicSupport)\n",
        "include/minic/Support/A.h": "#include <vector>\n",
        "lib/IR/B.cpp": '#include "minic/IR/B.h"\n#include "minic/Support/A.h"\n// dlopen("x") is not for this room\n',
        "lib/CodeGen/C.cpp": '#include "minic/Support/A.h"\n#include <llvm/IR/Module.h>\n',
        "lib/Runtime/D.cpp": 'void *p = dlopen("libcuda.so.1", 1);\n',
        "include/minic/minic.h": '#include "minic/Runtime/D.h"\n',
        "tools/minic/Main.cpp": '#include "minic/CodeGen/C.h"\n',
    }
    planted = {
        "a lower room includes a higher one": {"include/minic/Support/A.h": '\n  # include "minic/IR/B.h"\n'},
        "a room includes one beside it": {"lib/Runtime/E.cpp": '#include "minic/IR/B.h"\n'},
        "a room includes the header of all": {"lib/IR/E.cpp": '#include "minic/minic.h"\n'},
        "a stray file among the rooms": {"lib/E.cpp": "\n"},
        "LLVM outside CodeGen": {"lib/IR/E.cpp": '#include "llvm/IR/Module.h"\n'},
        "LLVM in a public header": {"include/minic/CodeGen/E.h": "#include <llvm/ADT/StringRef.h>\n"},
        "the loader outside Runtime": {"lib/IR/E.cpp": 'void *p = dlopen("x", 1);\n'},
        "the driver outside Runtime": {"tools/minic/E.cpp": "int e() { return cuInit(0); }\n"},
        "cuBLASLt outside Runtime": {"lib/IR/E.cpp": "int e() { return cublasLtCreate(nullptr); }\n"},
        "a folder that is no room": {"lib/Stray/E.cpp": "\n"},
        "a cycle": {"lib/CMakeLists.txt": "minic_room(Support USES minicIR)\nminic_room(IR USES minicSupport)\n"
                                          "minic_room(CodeGen USES minicIR)\nminic_room(Runtime USES minicSupport)\n"},
    }
    failures = 0
    for title, files in {"no fault": {}, **planted}.items():
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**base, **files}.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            found = check(folder)
        good = bool(found) == bool(files)
        failures += not good
        print(f"{'ok' if good else 'FAILED'}: {title}: {found or 'nothing found'}")
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        return 1 if self_test() else 0
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    faults = check(sys.argv[1])
    for fault in faults:
        print(fault)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
