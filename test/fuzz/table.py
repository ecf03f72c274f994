"""The op table of the minic under test, as `minic doc ops --json` prints it."""

import json
import os
import pathlib
import subprocess


class Op:
    def __init__(self, row):
        self.name, self.rule, self.elementwise = row["name"], row["typeRule"], row["elementwise"]
        self.operands = [operand.strip() for operand in row["operands"].split(",") if operand.strip()]
        self.words = row["words"]
        self.dtypes = [dtype for dtype in row["dtypes"].split(", ") if dtype and dtype != "index"]
        self.in_graphs = "graph" in row["levels"]


def find_program():
    """Beside the library that the Python package loads."""
    library = os.environ.get("MINIC_LIBRARY")
    if not library:
        raise SystemExit("set MINIC_LIBRARY to libminic.so of a build: the program minic is looked for in bin beside its folder")
    return pathlib.Path(library).resolve().parent.parent / "bin" / "minic"


def read_table():
    """Rows of graphs by name, and the element types that tensors may have."""
    rows = json.loads(subprocess.run([find_program(), "doc", "ops", "--json"], check=True, capture_output=True).stdout)
    ops = [Op(row) for row in rows]
    stored = next(op.dtypes for op in ops if op.name == "load")
    return {op.name: op for op in ops if op.in_graphs}, stored
