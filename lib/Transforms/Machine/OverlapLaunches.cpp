// overlap-launches: lets a kernel start while the launches before it end, and the next one while it runs.
//
//   kernel @k(...) at machine { %p = program_id ... }  ->  { launch_wait; launch_next; %p = program_id ... }
//
// What a launch costs before its first instruction (about a microsecond) then passes in the shadow of the launch before. The next
// kernel's CTAs get room only once all CTAs of this one have it. See the CUDA C++ Programming Guide, "Programmatic Dependent
// Launch".
#include "minic/IR/Builder.h"
#include "minic/Transforms/Passes.h"

namespace minic {

Expected<void> passes::overlapLaunches(Function &function, PassContext &context) {
  if (function.kind != FunctionKind::Kernel || context.target.name != opInfo(OpKind::LaunchWait).needs)
    return {};
  for (Operation &op : function.body())
    if (op.is(OpKind::LaunchWait) || op.is(OpKind::LaunchNext))
      return {}; // By hand.
  Builder builder(function.body(), function.body().front());
  builder.create(OpKind::LaunchWait, {}, {});
  builder.create(OpKind::LaunchNext, {}, {});
  return {};
}

} // namespace minic
