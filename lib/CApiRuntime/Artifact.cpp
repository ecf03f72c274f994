#include "minic/Artifact/ArtifactFile.h"

#include "minic/CApiRuntime/Handles.h"

#include <algorithm>

namespace minic {

SpecList::SpecList(const std::vector<TensorSpec> &specs) : texts(specs.size()) {
  for (size_t i = 0; i < specs.size(); ++i) {
    Texts &text = texts[i];
    text.name = specs[i].name;
    for (const DimExpr &dim : specs[i].shape) {
      text.dims.push_back(dim.str());
      text.sizes.push_back(dim.constant().value_or(-1));
    }
    for (const std::string &dim : text.dims)
      text.dimTexts.push_back(dim.c_str());
    entries.push_back({.name = text.name.c_str(),
                       .dims = text.dimTexts.data(),
                       .sizes = text.sizes.data(),
                       .dtype = toCType(specs[i].dtype),
                       .rank = int32_t(text.sizes.size())});
  }
}

ArtifactObject::ArtifactObject(std::vector<Artifact> list, std::string warnings)
    : warnings(std::move(warnings)), inputs(list.at(0).signature().inputs), results(list.at(0).signature().results) {
  for (const Artifact &artifact : list)
    targets += (targets.empty() ? "" : ", ") + artifact.target;
  variants = std::make_shared<const std::vector<Artifact>>(std::move(list));
}

Expected<void> giveSpecs(const SpecList &list, const MinicTensorSpec **specs, size_t *count) {
  if (!specs || !count)
    return badArgument(specs ? "count" : "specs", "is NULL, expected a place for the result");
  *specs = list.list().data();
  *count = list.list().size();
  return {};
}

static Expected<void> giveArtifact(Expected<std::vector<Artifact>> variants, MinicArtifact **artifact) {
  if (!variants)
    return variants.takeErrors();
  *artifact = give(std::make_unique<ArtifactObject>(std::move(*variants), ""));
  return {};
}

} // namespace minic

using namespace minic;

MinicError *minic_artifact_read(const char *path, MinicArtifact **artifact) {
  return guarded([&]() -> Expected<void> {
    if (auto place = prepareResult(artifact, "artifact"); !place)
      return place;
    if (!path)
      return badArgument("path", "is NULL, expected a file's path");
    return giveArtifact(readArtifacts(path), artifact);
  });
}

MinicError *minic_artifact_from_bytes(const void *data, size_t size, MinicArtifact **artifact) {
  return guarded([&]() -> Expected<void> {
    if (auto place = prepareResult(artifact, "artifact"); !place)
      return place;
    if (!data)
      return badArgument("data", "is NULL, expected the bytes of an artifact");
    return giveArtifact(deserializeArtifacts({static_cast<const char *>(data), size}), artifact);
  });
}

MinicError *minic_artifact_save(MinicArtifact *artifact, const char *path) {
  return guarded([&]() -> Expected<void> {
    auto object = use<ArtifactObject>(artifact, "artifact");
    if (!object)
      return object.takeErrors();
    if (!path)
      return badArgument("path", "is NULL, expected a file's path");
    return writeArtifacts(path, *(*object)->variants);
  });
}

MinicError *minic_artifact_inputs(MinicArtifact *artifact, const MinicTensorSpec **specs, size_t *count) {
  return guarded([&]() -> Expected<void> {
    auto object = use<ArtifactObject>(artifact, "artifact");
    return object ? giveSpecs((*object)->inputs, specs, count) : object.takeErrors();
  });
}

MinicError *minic_artifact_results(MinicArtifact *artifact, const MinicTensorSpec **specs, size_t *count) {
  return guarded([&]() -> Expected<void> {
    auto object = use<ArtifactObject>(artifact, "artifact");
    return object ? giveSpecs((*object)->results, specs, count) : object.takeErrors();
  });
}

MinicError *minic_artifact_info(MinicArtifact *artifact, MinicArtifactInfo *info) {
  return guarded([&]() -> Expected<void> {
    auto object = use<ArtifactObject>(artifact, "artifact");
    if (!object)
      return object.takeErrors();
    const ArtifactObject &of = **object;
    const Artifact &first = of.variants->front();
    auto isLaunch = [](const PlanStep &step) { return !step.definesBuffer(); };
    return fillInfo(MinicArtifactInfo{.graph = first.signature().name.c_str(),
                                      .targets = of.targets.c_str(),
                                      .numerics = first.numerics.c_str(),
                                      .launches = std::ranges::count_if(first.plans.front().steps, isLaunch),
                                      .warnings = of.warnings.c_str()},
                    info);
  });
}

MinicError *minic_artifact_destroy(MinicArtifact *artifact) { return destroy<ArtifactObject>(artifact, "artifact"); }
