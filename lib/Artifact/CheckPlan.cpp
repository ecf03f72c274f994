#include "CheckPlan.h"

#include <algorithm>

namespace minic {

using Kind = PlanStep::Kind;

namespace {

class PlanChecker {
public:
  PlanChecker(const Artifact &artifact, const Plan &plan) : artifact(artifact), plan(plan), defined(plan.buffers.size(), false) {}

  Expected<void> run() {
    if (plan.inputs.size() > plan.buffers.size())
      return bad("has fewer buffers than inputs");
    std::fill_n(defined.begin(), plan.inputs.size(), true);
    for (size_t i = 0; i < plan.steps.size(); ++i)
      if (const char *why = checkStep(plan.steps[i]))
        return bad("step " + std::to_string(i) + " " + why);
    if (plan.resultBuffers.size() != plan.results.size())
      return bad("has another number of result buffers than of results");
    std::vector<bool> taken(plan.buffers.size(), false);
    for (int buffer : plan.resultBuffers) {
      if (!isDefined(buffer) || size_t(buffer) < plan.inputs.size() || taken[size_t(buffer)])
        return bad("returns a buffer that is undefined, an input or returned already");
      taken[size_t(buffer)] = true;
    }
    for (size_t slot = plan.inputs.size(); slot < plan.buffers.size(); ++slot)
      if (plan.buffers[slot].spec.strided && !taken[slot])
        return bad("gives strides to a buffer that is no argument");
    if (!sameTensors(plan.inputs, artifact.signature().inputs) || !sameTensors(plan.results, artifact.signature().results))
      return bad("takes or gives other tensors than the last one");
    return {};
  }

private:
  Diagnostic bad(std::string why) const {
    return {.code = ErrorCode::BadStructure, .message = "the plan of '" + plan.name + "' is damaged: it " + std::move(why)};
  }
  bool isDefined(int slot) const { return slot >= 0 && size_t(slot) < defined.size() && defined[size_t(slot)]; }

  static bool sameTensors(const std::vector<TensorSpec> &a, const std::vector<TensorSpec> &b) {
    return std::ranges::equal(a, b, [](const TensorSpec &x, const TensorSpec &y) {
      return x.name == y.name && x.dtype == y.dtype && x.shape.size() == y.shape.size();
    });
  }

  const char *checkStep(const PlanStep &step) {
    if (!std::ranges::all_of(step.operands, [&](int operand) { return isDefined(operand); }))
      return "uses an undefined buffer";
    if (step.kind == Kind::Launch) {
      if (step.kernel < 0 || size_t(step.kernel) >= artifact.kernels.size())
        return "launches an unknown kernel";
      const std::vector<KernelParam> &params = artifact.kernels[size_t(step.kernel)].params;
      if (params.size() != step.operands.size())
        return "gives a kernel another number of buffers than it takes";
      for (size_t i = 0; i < params.size(); ++i) {
        const TensorSpec &spec = plan.buffers[size_t(step.operands[i])].spec;
        if (params[i].stridedAxes != (spec.strided ? int(spec.shape.size()) : 0))
          return "gives a kernel another number of strides than it takes";
      }
      return nullptr;
    }
    if (step.kind == Kind::LibraryCall)
      return checkLibraryCall(step);
    if (step.kind == Kind::Constant && (step.constant < 0 || size_t(step.constant) >= artifact.constants.size()))
      return "uses an unknown constant";
    if (step.operands.size() != (step.kind == Kind::View || step.kind == Kind::Copy ? 1 : 0))
      return "has a wrong number of operands";
    if (step.result < 0 || size_t(step.result) >= defined.size() || defined[size_t(step.result)])
      return "defines an unknown buffer or one that is defined already";
    defined[size_t(step.result)] = true;
    auto strided = [&](int slot) { return plan.buffers[size_t(slot)].spec.strided; };
    if (std::ranges::any_of(step.operands, strided) || (step.kind != Kind::Alloc && strided(step.result)))
      return "views or copies a buffer with strides, or gives them to a constant";
    return nullptr;
  }

  const char *checkLibraryCall(const PlanStep &step) const {
    if (artifact.numerics == "exact")
      return "calls a library, whose order of sums is not that of exact numerics";
    std::vector<MatmulOperand> operands;
    for (int operand : step.operands) {
      const TensorSpec &spec = plan.buffers[size_t(operand)].spec;
      if (spec.strided)
        return "calls a library with strides";
      operands.push_back({spec.dtype, spec.shape});
    }
    if (matmulCallFault(step.matmul, operands))
      return "calls a library with operands that do not fit";
    if (size_t(step.operands.back()) < plan.inputs.size() || std::ranges::count(step.operands, step.operands.back()) > 1)
      return "calls a library that would overwrite what it reads, or an input";
    return nullptr;
  }

  const Artifact &artifact;
  const Plan &plan;
  std::vector<bool> defined;
};

} // namespace

Expected<void> checkPlans(const Artifact &artifact) {
  if (artifact.plans.empty())
    return Diagnostic{.code = ErrorCode::BadStructure, .message = "the artifact has no plan"};
  for (const Plan &plan : artifact.plans)
    if (auto checked = PlanChecker(artifact, plan).run(); !checked)
      return checked.takeErrors();
  return {};
}

} // namespace minic
