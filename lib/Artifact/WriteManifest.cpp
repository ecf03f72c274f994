#include "Manifest.h"

#include <nlohmann/json.hpp>

namespace minic {
namespace {

using Json = nlohmann::json;

class ManifestWriter {
public:
  ManifestAndBlobs run(std::span<const Artifact> artifacts) {
    Json list = Json::array();
    for (const Artifact &artifact : artifacts)
      list.push_back(variant(artifact));
    Json root = {{"minic", MINIC_VERSION}, {"variants", std::move(list)}};
    // A name that is no UTF-8 is not worth a failure.
    return {root.dump(-1, ' ', false, Json::error_handler_t::replace), std::move(blobs)};
  }

private:
  Json blob(std::string_view bytes) {
    Json place = {{"offset", blobs.size()}, {"size", bytes.size()}};
    blobs += bytes;
    return place;
  }

  static Json sizes(const std::vector<DimExpr> &shape) {
    Json list = Json::array();
    for (const DimExpr &dim : shape)
      list.push_back(dim.str());
    return list;
  }

  static Json param(const KernelParam &param) {
    Json json = {{"name", param.name}};
    if (param.map)
      json["map"] = {{"dtype", dtypeName(param.map->dtype)},
                     {"shape", sizes(param.map->shape)},
                     {"box", param.map->box},
                     {"swizzle", param.map->swizzle}};
    if (param.map && param.map->tf32)
      json["map"]["tf32"] = true;
    if (param.stridedAxes)
      json["stridedAxes"] = param.stridedAxes;
    return json;
  }

  Json kernel(const KernelCode &kernel) {
    Json params = Json::array();
    for (const KernelParam &each : kernel.params)
      params.push_back(param(each));
    Json json = {{"name", kernel.name},
                 {"ops", kernel.ops},
                 {"params", std::move(params)},
                 {"dims", sizes(kernel.dims)},
                 {"threads", kernel.threads},
                 {"sharedBytes", kernel.sharedBytes},
                 {"dynamicSharedBytes", kernel.dynamicSharedBytes}};
    if (!kernel.entry.empty())
      json["entry"] = kernel.entry;
    if (!kernel.overriddenBy.empty())
      json["overriddenBy"] = kernel.overriddenBy;
    if (kernel.clusterCtas > 1)
      json["clusterCtas"] = kernel.clusterCtas;
    if (kernel.waitsForLaunches)
      json["waitsForLaunches"] = true;
    json["ptx"] = blob(kernel.ptx);
    json["cubin"] = blob(kernel.cubin);
    return json;
  }

  static Json step(const PlanStep &step) {
    Json json = {{"kind", stepName(step.kind)}};
    if (step.definesBuffer())
      json["result"] = step.result;
    if (!step.operands.empty())
      json["operands"] = step.operands;
    if (step.kind == PlanStep::Kind::Constant)
      json["constant"] = step.constant;
    if (step.kind == PlanStep::Kind::Launch) {
      json["kernel"] = step.kernel;
      json["grid"] = sizes(step.grid);
    }
    if (step.kind == PlanStep::Kind::LibraryCall) {
      json["library"] = "cublaslt";
      json["function"] = "matmul";
      json["transposed"] = {step.matmul.transposedLhs, step.matmul.transposedRhs};
      json["epilogue"] = epilogueName(step.matmul.epilogue);
    }
    return json;
  }

  static Json plan(const Plan &plan) {
    Json buffers = Json::array(), results = Json::array(), steps = Json::array();
    for (const PlanBuffer &buffer : plan.buffers) {
      buffers.push_back({{"name", buffer.spec.name}, {"dtype", dtypeName(buffer.spec.dtype)}, {"shape", sizes(buffer.spec.shape)}});
      if (buffer.spec.strided)
        buffers.back()["strided"] = true;
    }
    for (size_t i = 0; i < plan.results.size(); ++i)
      results.push_back({{"name", plan.results[i].name}, {"buffer", plan.resultBuffers[i]}});
    for (const PlanStep &each : plan.steps)
      steps.push_back(step(each));
    std::vector<std::string> facts;
    for (const DimFact &fact : plan.facts)
      facts.push_back(fact.str());
    return {{"name", plan.name},
            {"where", facts},
            {"inputs", plan.inputs.size()},
            {"buffers", std::move(buffers)},
            {"results", std::move(results)},
            {"steps", std::move(steps)}};
  }

  Json variant(const Artifact &artifact) {
    Json json = {{"target", artifact.target}, {"numerics", artifact.numerics}, {"passes", artifact.passes}};
    json["text"] = blob(artifact.text);
    Json kernels = Json::array();
    for (const KernelCode &each : artifact.kernels)
      kernels.push_back(kernel(each));
    json["kernels"] = std::move(kernels);
    Json constants = Json::array(), plans = Json::array();
    for (const std::vector<std::byte> &each : artifact.constants)
      constants.push_back(blob({reinterpret_cast<const char *>(each.data()), each.size()}));
    for (const Plan &each : artifact.plans)
      plans.push_back(plan(each));
    json["constants"] = std::move(constants);
    json["plans"] = std::move(plans);
    return json;
  }

  std::string blobs;
};

} // namespace

ManifestAndBlobs writeManifest(std::span<const Artifact> artifacts) { return ManifestWriter().run(artifacts); }

} // namespace minic
