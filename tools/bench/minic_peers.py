"""minic through its Python package, beside tensors of torch's."""
import importlib
import pathlib
import sys

import torch

import cases
import graphs

HERE = pathlib.Path(__file__).resolve().parent


def package():
    """The package `minic`: installed, on PYTHONPATH, or beside this folder in the source tree or in the bundle."""
    for folder in (HERE.parent / "python", HERE.parents[1] / "python", HERE.parents[2] / "python"):
        if (folder / "minic" / "__init__.py").is_file() and str(folder) not in sys.path:
            sys.path.append(str(folder))
    return importlib.import_module("minic")


class Run:
    """Runs an executable into one tensor, which it returns. `stream` is for graphs; None is the default stream, which is torch's."""

    def __init__(self, case, provider, inputs):
        minic = package()
        artifact = minic.compile(graphs.text_of(case), mode="eager" if provider == cases.EAGER else "fused")
        self.launches = artifact.launches
        self.executable = artifact.load(device="cuda:0")
        self.inputs = list(inputs)
        self.outputs = [torch.empty(graphs.result_of(case), dtype=inputs[0].dtype, device="cuda")]

    def __call__(self, stream=None):
        self.executable.run(self.inputs, self.outputs, stream=stream)
        return self.outputs[0]

    def captured_alone(self):
        """minic's own capture: replays one call."""
        return self.executable.capture(self.inputs, self.outputs).launch
