#include "Model.h"

namespace minic::cli {

Expected<Model> modelGraph(const SourceBuffer &source, const CompileOptions &options, const std::string &name,
                           const DimBindings &dims) {
  Context context;
  auto module = loadModule(context, source, options);
  if (!module)
    return module.takeErrors();
  auto eager = eagerTraffic(*(*module)->find(name), dims);
  if (!eager)
    return eager.takeErrors();
  auto flops = matmulFlops(*(*module)->find(name), dims);
  if (!flops)
    return flops.takeErrors();

  CompileOptions fusing = options;
  fusing.eager = false;
  fusing.passes = {};
  if (auto lowered = lowerTo(**module, Stage::Fused, fusing); !lowered) {
    addReproducer(lowered.errors(), source, fusing, Stage::Fused);
    return lowered.takeErrors();
  }
  auto fused = fusedTraffic(*(*module)->find(name), dims);
  if (!fused)
    return fused.takeErrors();
  auto target = findTarget((*module)->target);
  if (!target)
    return target.takeErrors();
  Model model{&peakRates(**target), std::move(*eager), std::move(*fused), *flops};
  fusing.dims = {}; // They are bound.
  fusing.graph = name;
  if (auto lowered = lowerTo(**module, Stage::Tile, fusing); !lowered)
    return lowered.takeErrors();
  for (const Value *input : (*module)->find(name)->params())
    model.strided.emplace_back(input->name(), countStridedReads(*input, dims));
  return model;
}

} // namespace minic::cli
