"""minic through its Python package, beside tensors of torch's."""

import torch

import cases
import graphs
import minic_package


class Run:
    """Runs an executable into one tensor, which it returns. `stream` is for graphs; None is torch's current stream."""

    def __init__(self, case, provider, inputs):
        artifact = minic_package.package().compile(graphs.text_of(case), mode="eager" if provider == cases.EAGER else "fused")
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
