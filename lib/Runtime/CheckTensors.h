// What tensors must be to be given to a kernel. Private to lib/Runtime.
#pragma once

#include "minic/Artifact/Device.h"
#include "minic/Support/HostTensor.h"

#include <map>
#include <optional>

namespace minic {

/// The executable's device, addresses of elements, elements within the tensor's allocation, results that overlap nothing and not
/// themselves. Numbers of tensors, dtypes, shapes and what the plan asks of strides have been checked before.
Expected<void> checkTensors(Device &device, const std::vector<TensorSpec> &inputSpecs, std::span<const TensorView> inputs,
                            const std::vector<TensorSpec> &resultSpecs, std::span<const TensorView> results);

/// Why a tensor cannot be bound to an input: dtype, rank, sizes that are numbers. Names are bound later, with the other inputs.
std::optional<Diagnostic> weightFault(const TensorSpec &spec, const HostTensor &weight);
/// Some weights have no input of their name.
Diagnostic unknownWeight(const Plan &plan, const std::map<std::string, HostTensor> &weights);

} // namespace minic
