#include "CheckPlan.h"

#include <algorithm>

namespace minic {

using Kind = PlanStep::Kind;

namespace {

class PlanChecker {
public:
  explicit PlanChecker(const Artifact &artifact) : artifact(artifact), plan(artifact.plan), defined(plan.buffers.size(), false) {}

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
    return {};
  }

private:
  Diagnostic bad(std::string why) const {
    return {.code = ErrorCode::BadStructure, .message = "the plan of '" + plan.name + "' is damaged: it " + std::move(why)};
  }
  bool isDefined(int slot) const { return slot >= 0 && size_t(slot) < defined.size() && defined[size_t(slot)]; }

  const char *checkStep(const PlanStep &step) {
    if (!std::ranges::all_of(step.operands, [&](int operand) { return isDefined(operand); }))
      return "uses an undefined buffer";
    if (step.kind == Kind::Launch) {
      if (step.kernel < 0 || size_t(step.kernel) >= artifact.kernels.size())
        return "launches an unknown kernel";
      bool fits = artifact.kernels[size_t(step.kernel)].params.size() == step.operands.size();
      return fits ? nullptr : "gives a kernel another number of buffers than it takes";
    }
    if (step.operands.size() != (step.kind == Kind::View || step.kind == Kind::Copy ? 1 : 0))
      return "has a wrong number of operands";
    if (step.result < 0 || size_t(step.result) >= defined.size() || defined[size_t(step.result)])
      return "defines an unknown buffer or one that is defined already";
    defined[size_t(step.result)] = true;
    return nullptr;
  }

  const Artifact &artifact;
  const Plan &plan;
  std::vector<bool> defined;
};

} // namespace

Expected<void> checkPlan(const Artifact &artifact) { return PlanChecker(artifact).run(); }

} // namespace minic
