"""Texts that should be refused, or compiled, in little time and memory: hostile.py [--sanitizer]."""
import re
import resource
import subprocess
import sys


def graph(kind, op="neg %x", result=None):
    return f"graph @g(%x: tensor<{kind}>) -> (y: tensor<{result or kind}>) {{\n  %y = {op} : tensor<{result or kind}>\n  return %y\n}}\n"


def customs(count, uses, operand, type, before=""):
    """Custom ops that use the one before, and a graph that uses the last; each gives a number, from an operand that may be of another size."""
    head, text = "graph @g(%x: tensor<Kxf32>) -> (y: tensor<f32>) {\n", ""
    for i in range(count):
        call = f"custom @f{i - 1}({operand})" if i else f"reduce sum {operand}, axes = [0]"
        lines = "".join(f"  %y{use} = {call} : tensor<f32>\n" for use in range(uses))
        text += f"custom @f{i}(%x: {type}) -> (y: tensor<f32>) {{\n{before}{lines}  return %y{uses - 1}\n}}\n"
    return text + head + f"  %y = custom @f{count - 1}(%x) : tensor<f32>\n  return %y\n}}\n"


REFUSED = {
    "a size beyond 64 bits": graph("99999999999999999999xf32"),
    "a negative size": graph("-1xf32"),
    "an unknown type": graph("4xf33"),
    "an unknown op": graph("4xf32", "negate %x"),
    "nested brackets": graph("4xf32", "constant " + "[" * 100000 + "1" + "]" * 100000),
    "nested brackets of a type": "graph @g(%x: " + "tensor<" * 100000 + "f32" + ">" * 100000 + ") -> () { return }",
    "nested parentheses": graph("(" * 100000 + "N" + ")" * 100000 + "xf32"),
    "nested regions": "graph @g(%x: tensor<4xf32>) -> () {\n" + "%y = fusion %x { ^(%a: tensor<4xf32>):\n" * 100000,
    "no return": "graph @g(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {\n  %y = neg %x : tensor<4xf32>\n}\n",
    "fewer values than the shape": graph("4xf32", "constant [1.0, 2.0, 3.0]"),
    "more values than the shape": graph("2xf32", "constant [1.0, 2.0, 3.0]"),
    "a list for a huge shape": graph("4294967296x4294967296xf32", "constant [1.0]"),
    "a reshape to other counts": graph("4294967296x4294967296xf32", "reshape %x", "1xf32"),
    "a value of itself": graph("4xf32", "neg %y"),
    "an axis far away": graph("4xf32", "reduce sum %x, axes = [4294967296]", "f32"),
    "one axis many times": graph("4xf32", "reduce sum %x, axes = [" + "0, " * 100000 + "0]", "f32"),
    "a permutation of many": graph("4xf32", "transpose %x, perm = [" + "0, " * 100000 + "0]"),
    "custom ops of custom ops": customs(40, 2, "%x", "tensor<Nxf32>"),
    "a chain of custom ops": customs(20000, 1, "%x", "tensor<Nxf32>"),
    "sizes that square": customs(40, 1, "%w", "tensor<Nxf32>", "  %w = pad %x, low = [0], high = [N*N], value = 0.0 : tensor<(N*N + N)xf32>\n"),
    "a custom op that is no end of its own": "custom @f(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {\n  %y = custom @f(%x) : tensor<4xf32>\n  return %y\n}\n",
    "half a string": "kernel @k() at machine, threads = 32 {\n  ptx \"" + "a\n" * 100000,
    "many strings": "kernel @k() at machine, threads = 32 {\n  ptx " + "\"a\" " * 100000,
    "half a comment of PTX": "kernel @k() at machine, threads = 32 {\n  ptx \"f\", sizes = [], text = \"" + "/*" * 100000 + "\"\n  return\n}\n",
    "unfinished text": "graph @g(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {",
    "zero bytes": "\0" * 100000,
    "no letters": "\xff" * 100000,
}
# Sizes that no memory holds are no fault of a text: names could be bound to them, too.
TAKEN = {
    "two sizes whose product is 2^64": graph("4294967296x4294967296xf32"),
    "two sizes whose product is above 2^63": graph("3037000500x3037000500xf32"),
    "a sum over them": graph("4294967296x4294967296xf32", "reduce sum %x, axes = [0, 1]", "f32"),
    "a matmul of them": graph("3037000500x3037000500xf32", "matmul %x, %x"),
    "rank 100": graph("2x" * 30 + "1x" * 70 + "f32"),
    "rank 1000": graph("1x" * 1000 + "f32"),
    "a size of 0": graph("0x4xf32", "reduce max %x, axes = [0]", "4xf32"),
    "carriage returns": graph("4xf32").replace("\n", "\r\n"),
    "a long name": graph("4xf32").replace("%y", "%" + "y" * 100000),
}


def compile_text(text):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["minic", "compile", "-", "--emit=ptx", "-o", "/dev/null"], input=text.encode("latin-1"),
                          capture_output=True, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime  # The machine may be busy.
    return done.returncode, done.stderr.decode("latin-1"), seconds


def main():
    sanitizer = "--sanitizer" in sys.argv
    faults = []
    for name, text in {**REFUSED, **TAKEN, "an empty file": ""}.items():
        code, errors, seconds = compile_text(text)
        if code not in (0, 1) or (name in REFUSED and code == 0):
            faults.append(f"{name}: exit code {code}: {errors[:300]}")
        elif "bug of minic" in errors:
            faults.append(f"{name}: {errors[:300]}")
        elif name in REFUSED and not re.search(r"^[^\n]*:\d+:\d+: error: .* \[E\d{4}\]", errors):
            faults.append(f"{name}: no place and cause: {errors[:300]}")
        if seconds > (60 if sanitizer else 5):
            faults.append(f"{name}: {seconds:.1f} s")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    if peak > 1 << 20 and not sanitizer:
        faults.append(f"{peak} KiB of memory")
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    main()
