// overlap-launches: lets a kernel start while the launches before it end.
//
//   kernel @k(...) at machine { %p = program_id ... }  ->  { launch_wait; %p = program_id ... }
//
// What a launch costs before its first instruction (about a microsecond) then passes while the CTAs of the launch before end. See
// the CUDA C++ Programming Guide, "Programmatic Dependent Launch". No kernel asks for the next one to start earlier
// (griddepcontrol.launch_dependents): each CTA that says so takes 1.2 ns of the whole GPU's time, measured on an H200.
#include "minic/IR/Builder.h"
#include "minic/Transforms/Passes.h"

namespace minic {

Expected<void> passes::overlapLaunches(Function &function, PassContext &context) {
  if (function.kind != FunctionKind::Kernel || context.target.name != opInfo(OpKind::LaunchWait).needs)
    return {};
  for (Operation &op : function.body())
    if (op.is(OpKind::LaunchWait) || op.is(OpKind::Ptx))
      return {}; // By hand.
  Builder(function.body(), function.body().front()).create(OpKind::LaunchWait, {}, {});
  return {};
}

} // namespace minic
