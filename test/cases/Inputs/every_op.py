"""Every op of one operand on every float type, and every conversion, to PTX for every target: every_op.py MINIC_TARGET...

The PTX says the target, and a version that early drivers of that GPU take (sm_90a: those of CUDA 12.1).
"""
import json
import os
import re
import subprocess
import sys
import tempfile

VERSIONS = {"sm_80": "7.0", "sm_86": "7.1", "sm_89": "7.8", "sm_90a": "8.1", "sm_100": "8.6", "sm_120": "8.7"}
"""The first PTX version that has the target, and for sm_90a st.async, which clusters need (PTX ISA, release notes)."""
FLOATS = ("f16", "bf16", "f32", "f64")


def graph(name, parameters, lines):
    """Lines are (op, type of the result)."""
    text = [f"  %r{i} = {op} : {type}" for i, (op, type) in enumerate(lines)]
    results = ", ".join(f"o{i}: {type}" for i, (_, type) in enumerate(lines))
    returned = ", ".join(f"%r{i}" for i in range(len(lines)))
    return f"graph @{name}({parameters}) -> ({results}) {{\n" + "\n".join(text) + f"\n  return {returned}\n}}\n"


def texts():
    rows = json.loads(subprocess.run(["minic", "doc", "ops", "--json"], check=True, capture_output=True).stdout)
    unary = [row for row in rows if row["elementwise"] and row["operands"] == "operand" and "graph" in row["levels"]]
    for dtype in FLOATS:
        names = [row["name"] for row in unary if dtype in row["dtypes"].split(", ") and row["typeRule"] == "elementwise"]
        assert len(names) > 20, names
        yield graph(f"unary_{dtype}", f"%x: tensor<32x{dtype}>", [(f"{name} %x", f"tensor<32x{dtype}>") for name in names])
    types = next(row for row in rows if row["name"] == "convert")["dtypes"].split(", ")
    types.remove("index")
    assert len(types) > 10, types
    for dtype in types:
        others = [other for other in types if other != dtype]
        yield graph(f"from_{dtype}", f"%x: tensor<32x{dtype}>", [("convert %x", f"tensor<32x{other}>") for other in others])


def main(targets):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "g.ir")
        for text in texts():
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            for target in targets:
                done = subprocess.run(["minic", "compile", path, "--emit=ptx", f"--target={target}"], capture_output=True, text=True)
                if done.returncode:
                    sys.exit(f"{target}: {done.stderr}{text}")
                version = re.search(r"^\.version (\S+)$", done.stdout, re.M)[1]
                assert re.search(rf"^\.target {target}$", done.stdout, re.M), target
                assert version == VERSIONS[target], f"{target}: .version {version}, expected {VERSIONS[target]}"
                assert "call" not in re.sub(r"//.*", "", done.stdout), f"{target}: a call of a function that nobody has: {text}"


if __name__ == "__main__":
    main(sys.argv[1:] or list(VERSIONS))
