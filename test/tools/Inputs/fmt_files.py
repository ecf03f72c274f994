"""What `minic fmt` promises, on the .ir files of the tree that parse: tokens and comments stay, twice is once, the module is the same,
and files are as it writes them.

    fmt_files.py ROOT
"""

import pathlib
import re
import subprocess
import sys

# Written down again and not taken from the lexer: what is no blank, in order; `- 1` and `-1` differ.
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|->|-?\w+|[%@#]\w+|\S', re.S)


def minic(*words, stdin=None):
    return subprocess.run(["minic", *map(str, words)], capture_output=True, text=True, input=stdin)


def tokens(text):
    return [token.rstrip() if token.startswith("//") else token for token in TOKEN.findall(text)]


def module(text):
    """As it is printed; kernels say where their ops stood, which lines between them change."""
    return re.sub(r" loc\(\d+:\d+\)", "", minic("opt", "-", stdin=text).stdout)


def squeezed(text):
    """The text as somebody may have written it: other blanks in the lines. Strings, comments and facts stay."""
    if '"' in text or "where" in text:
        return text
    lines = []
    for line in text.split("\n"):
        code, slashes, comment = line.partition("//")
        code = re.sub(r" *, *", ",", re.sub(r" *= *", "=", code)).replace("{", "  {").replace(" :", "\t:")
        lines += [code.strip() + "  " + slashes + comment + " \t", "", ""] if not code.rstrip().endswith(",") else [code + comment]
    return "\n".join(lines)


def main(root):
    files = sorted(path for folder in ("examples", "test", "lib") for path in (root / folder).rglob("*.ir"))
    faults, parsed = [], 0
    for path in files:
        text = path.read_text()
        done = minic("fmt", path)
        if done.returncode:
            if "error:" not in done.stderr or not re.search(r":\d+:\d+: error: ", done.stderr):
                faults.append(f"{path}: refused without a place: {done.stderr[:200]}")
            continue
        parsed += 1
        if done.stdout != text:
            faults.append(f"{path} is not as minic fmt writes it")
        other = squeezed(text)
        once = minic("fmt", "-", stdin=other).stdout
        if tokens(once) != tokens(text):
            faults.append(f"{path}: other tokens")
        if minic("fmt", "-", stdin=once).stdout != once:
            faults.append(f"{path}: twice is not once")
        if module(once) != module(text):
            faults.append(f"{path}: another module")
    print("\n".join(faults) or f"{parsed} of {len(files)} files parse and are well")
    sys.exit(bool(faults) or parsed < 60)


main(pathlib.Path(sys.argv[1]))
