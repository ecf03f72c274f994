// Artifacts on tensors in host memory.
#pragma once

#include "minic/Artifact/PreparedPlan.h"
#include "minic/Support/HostTensor.h"

namespace minic {

/// What `run` sees of tensors in host memory: types and shapes, no memory. Valid while the tensors are.
std::vector<TensorView> viewsOf(std::span<const HostTensor> tensors);
/// Host memory of this shape, or why there is none: a broadcast may be far larger than what the user gave. `who` is for the
/// message.
Expected<HostTensor> makeHostTensor(DType dtype, std::span<const int64_t> shape, const std::string &who);

/// Uploads `inputs`, walks the plan once, downloads the results, on the device's default stream. Everything allocated is released,
/// also after a failure. `given`: dims that the inputs' shapes do not say.
Expected<std::vector<HostTensor>> runPlan(const Artifact &artifact, Device &device, std::span<const HostTensor> inputs,
                                          const DimBindings &given = {}, const WalkOptions &options = {});

} // namespace minic
