"""minic through its Python package, beside tensors of torch's."""

import torch

import cases
import graphs
import minic_package


class Run:
    """Runs an executable into tensors, which it returns. `stream` is for graphs; None is torch's current stream."""

    def __init__(self, case, provider, inputs):
        artifact = minic_package.package().compile(graphs.text_of(case), **cases.MINIC[provider])
        self.launches = artifact.launches
        self.executable = artifact.load(device="cuda:0")
        self.inputs = list(inputs)
        self.outputs = tuple(torch.empty(sizes, dtype=inputs[0].dtype, device="cuda") for sizes in case.results.values())

    def __call__(self, stream=None):
        self.executable.run(self.inputs, self.outputs, stream=stream)
        return self.outputs

    def captured_alone(self):
        """minic's own capture: replays one call."""
        return self.executable.capture(self.inputs, self.outputs).launch
