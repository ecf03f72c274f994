"""Numbers that digits lose: the same bits after they were parsed, printed and parsed again, whatever locale the program that holds
minic is in. literals.py FOLDER [--locale]; FOLDER takes the results."""
import ctypes.util
import locale
import os
import shutil
import subprocess
import sys

# Element type, literal, bits; those of bf16 are an f32's, to which it is converted.
LITERALS = (
    ("f32", "0.333333343", 0x3EAAAAAB),
    ("f32", "10.0000105", 0x4120000B),
    ("f32", "-0.0", 0x80000000),
    ("f32", "1.4e-45", 0x00000001),
    ("f32", "3.4028235e38", 0x7F7FFFFF),
    ("f32", "inf", 0x7F800000),
    ("f32", "-inf", 0xFF800000),
    ("f32", "0x1.8p3", 0x41400000),
    ("f64", "0.30000000000000004", 0x3FD3333333333334),
    ("f64", "1e-20", 0x3BC79CA10C924223),
    ("f64", "4.9406564584124654e-324", 0x0000000000000001),
    ("f16", "0.1", 0x2E66),
    ("f16", "65504.0", 0x7BFF),
    ("f16", "5.96e-8", 0x0001),
    ("bf16", "3.140625", 0x40490000),
    ("bf16", "0.1", 0x3DCD0000),
)
BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 4}


def graph():
    results, body, values = [], [], []
    for i, (dtype, literal, _) in enumerate(LITERALS):
        stored = "f32" if dtype == "bf16" else dtype
        results.append(f"y{i}: tensor<1x{stored}>")
        body.append(f"  %c{i} = constant {literal} : tensor<1x{dtype}>")
        if dtype == "bf16":
            body.append(f"  %v{i} = convert %c{i} : tensor<1xf32>")
        values.append(f"%{'v' if dtype == 'bf16' else 'c'}{i}")
    return f"graph @g() -> ({', '.join(results)}) {{\n" + "\n".join(body) + f"\n  return {', '.join(values)}\n}}\n"


def minic(*words, text=None):
    done = subprocess.run(["minic", *words], input=text, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"minic {' '.join(words)}: exit code {done.returncode}: {done.stderr}")
    return done.stdout


def check_bits(text, folder):
    outputs = [word for i in range(len(LITERALS)) for word in ("--output", f"y{i}={folder}/y{i}.npy")]
    minic("run", "-", "--device=cpu", *outputs, text=text)
    for i, (dtype, literal, bits) in enumerate(LITERALS):
        with open(f"{folder}/y{i}.npy", "rb") as file:
            got = int.from_bytes(file.read()[-BYTES[dtype]:], "little")
        if got != bits:
            sys.exit(f"{literal} : {dtype} has the bits {got:x}, expected {bits:x}")


def check_locale(folder):
    """A host program with a comma in its numbers."""
    subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", f"{folder}/de_DE.UTF-8"], check=True, capture_output=True)
    os.environ["LOCPATH"] = folder
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.join(here, "..", "..", "..", "tools", "python"))
    bin_folder = os.path.dirname(shutil.which("minic"))
    os.environ["MINIC_LIBRARY"] = os.path.join(bin_folder, "..", "lib", "libminic.so")
    import minic as package

    before = {stage: package.emit(graph(), stage) for stage in ("graph", "machine", "llvm", "ptx")}
    locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
    libc = ctypes.CDLL(ctypes.util.find_library("c"))
    buffer = ctypes.create_string_buffer(16)
    libc.snprintf(buffer, 16, b"%.1f", ctypes.c_double(0.5))
    if buffer.value != b"0,5":
        sys.exit(f"the locale has no comma: {buffer.value}")
    for stage, text in before.items():
        if package.emit(graph(), stage) != text:
            sys.exit(f"the {stage} text depends on the locale")


def main(folder, *flags):
    os.makedirs(folder, exist_ok=True)
    if "--locale" in flags:
        return check_locale(folder)
    once = minic("opt", "-", text=graph())
    twice = minic("opt", "-", text=once)
    if once != twice:
        sys.exit(f"the text changes when it is read and printed again:\n{once}\n{twice}")
    check_bits(graph(), folder)
    check_bits(once, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
