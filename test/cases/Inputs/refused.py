"""Graphs that a verifier must refuse: one error each, which names the op and what does not fit; the same from the program and the library.

    refused.py [--library PATH]      minic must be in PATH; without a library only the program is asked
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

X = "%x: tensor<2x3xf32>"
WRONG = {
    # What is wrong: parameters, body, words of the one error.
    "an axis twice": (X, "%y = reduce sum %x, axes = [1, 1] : tensor<2xf32>", ["`reduce`", "[1, 1]"]),
    "an axis past the rank": (X, "%y = reduce sum %x, axes = [2] : tensor<2x3xf32>", ["`reduce`", "[2]", "%x: tensor<2x3xf32>", "0 to 1"]),
    "an axis before the first": (X, "%y = reduce sum %x, axes = [-3] : tensor<2x3xf32>", ["`reduce`", "-3", "2x3"]),
    "an axis from the end": (X, "%y = reduce sum %x, axes = [0, -1] : tensor<f32>", ["`reduce`", "-1"]),
    "a permutation with one axis twice": (X, "%y = transpose %x, perm = [0, 0] : tensor<2x2xf32>", ["`transpose`", "[0, 0]"]),
    "a permutation of other axes": (X, "%y = transpose %x, perm = [0, 2] : tensor<2x3xf32>", ["`transpose`", "[0, 2]"]),
    "a short permutation": (X, "%y = transpose %x, perm = [0] : tensor<2xf32>", ["`transpose`", "[0]", "2x3"]),
    "a slice that ends before it starts": (
        X, "%y = slice %x, starts = [0, 2], limits = [2, 1] : tensor<2x1xf32>", ["`slice`", "axis 1", "2", "1"]),
    "a slice past the end": (X, "%y = slice %x, starts = [0, 0], limits = [2, 4] : tensor<2x4xf32>", ["`slice`", "axis 1", "4", "3"]),
    "a step of 0": (X, "%y = slice %x, starts = [0, 0], limits = [2, 3], steps = [1, 0] : tensor<2x3xf32>", ["`slice`", "step 0"]),
    "a step back": (X, "%y = slice %x, starts = [0, 0], limits = [2, 3], steps = [1, -1] : tensor<2x3xf32>", ["`slice`", "step -1"]),
    "operands of unlike sizes": (
        X + ", %z: tensor<3x4xf32>", "%y = concat %x, %z, axis = 0 : tensor<5x3xf32>", ["`concat`", "%x: tensor<2x3xf32>", "%z: tensor<3x4xf32>"]),
    "a product of 3 and 4": (
        X + ", %z: tensor<4x5xf32>", "%y = matmul %x, %z : tensor<2x5xf32>", ["`matmul`", "%x: tensor<2x3xf32>", "%z: tensor<4x5xf32>"]),
    "another number of elements": (X, "%y = reshape %x : tensor<7xf32>", ["`reshape`", "2x3", "7"]),
    "a type that is none": (X, "%y = convert %x : tensor<2x3xf12>", ["f12"]),
    "a condition of numbers": (X, "%y = select %x, %x, %x : tensor<2x3xf32>", ["`select`", "f32", "i1"]),
    "a name twice": (X, "%y = neg %x : tensor<2x3xf32>\n  %y = abs %x : tensor<2x3xf32>", ["`%y` is defined twice"]),
    "a name before it is defined": (X, "%y = neg %late : tensor<2x3xf32>\n  %late = abs %x : tensor<2x3xf32>", ["%late"]),
    "a value of itself": (X, "%y = add %y, %x : tensor<2x3xf32>", ["%y"]),
    "another result": (X, "%y = neg %x : tensor<3x2xf32>", ["`neg`", "2x3", "3x2"]),
    "another element type": (X, "%y = add %x, %x : tensor<2x3xf16>", ["`add`", "f32", "f16"]),
    "shapes that do not meet": (
        X + ", %z: tensor<3x2xf32>", "%y = add %x, %z : tensor<2x3xf32>", ["`add`", "%x: tensor<2x3xf32>", "%z: tensor<3x2xf32>"]),
    "a row that is no integer": (X, "%y = gather %x, %x, axis = 0 : tensor<2x3x3xf32>", ["`gather`", "f32"]),
    "padding that is negative": (X, "%y = pad %x, low = [0, 0], high = [0, -1], value = 0.0 : tensor<2x2xf32>", ["`pad`", "-1"]),
}


def graph(parameters, body):
    return f"graph @g({parameters}) -> (r: tensor<2x3xf32>) {{\n  {body}\n  return %x\n}}\n"


def errors(text):
    return re.findall(r"(?m)^.*?\berror: (.*)$", text)


def of_program(folder, text):
    path = os.path.join(folder, "g.ir")
    pathlib.Path(path).write_text(text)
    done = [subprocess.run(["minic", *words], capture_output=True, text=True, timeout=60)
            for words in (["opt", path], ["compile", path, "--emit=ptx"], ["run", path, "--device=cpu", "--input=x=iota"])]
    for one in done:
        if one.returncode != 1 or one.stderr != done[0].stderr:
            return [f"{one.args[1]}: exit code {one.returncode}: {one.stderr}"]
    return errors(done[0].stderr)


def main():
    minic = None
    if "--library" in sys.argv:
        os.environ["MINIC_LIBRARY"] = sys.argv[sys.argv.index("--library") + 1]
        import minic
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (parameters, body, words) in WRONG.items():
            text = graph(parameters, body)
            found = of_program(folder, text)
            if len(found) != 1 or not all(word in found[0] for word in words):
                wrong.append(f"{name}: expected one error with {words}: {found}")
                continue
            if not minic:
                continue
            try:
                minic.compile(text)
                wrong.append(f"{name}: the library compiles it")
            except minic.MinicError as error:
                said = errors(str(error)) or [str(error).splitlines()[0]]
                if len(said) != 1 or not said[0].startswith(found[0].rpartition(" [")[0]):
                    wrong.append(f"{name}: the library says {error}")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
