// What the compiler did with a graph, and why: kernels, schedules, masks, padding.
#pragma once

#include "minic/Driver/CustomUses.h"
#include "minic/Driver/RegionChoices.h"
#include "minic/Transforms/FusionReport.h"

#include <string>
#include <vector>

namespace minic {

/// A load or store of a kernel along one of its tile's axes.
struct AccessFact {
  std::string kernel;
  std::string what; ///< "load %x".
  SourceLoc loc;
  int64_t axis = 0;
  bool isMasked = false; ///< Else it is proved in bounds.
  std::string why;       ///< "781 is no multiple of 1024: the last block has 781".
  std::string fill;      ///< What masked lanes hold, if anything depends on it.
};

/// A reduction or product of a kernel along an axis that it contracts.
struct PaddingProof {
  std::string kernel;
  std::string what; ///< "reduce max".
  SourceLoc loc;
  int64_t axis = 0;
  std::string padding;  ///< What padded lanes hold, "-inf"; "none" where no lane is padded.
  std::string identity; ///< Of the combiner.
  std::string proof;    ///< "load %x fills -inf; sub gives -inf; exp gives 0.0".
};

struct Explanation {
  FusionReport fusion;
  std::vector<RegionChoice> regions;
  std::vector<CustomUse> customs; ///< With kernels of their own.
  std::vector<AccessFact> accesses;
  std::vector<PaddingProof> paddings;
};

/// Adds what the kernels at the masked level say of accesses and padding.
void explainMasks(const Module &module, Explanation &explanation);
/// Lowers the graph that `options` name to the masked level, and says what was decided on the way.
Expected<Explanation> explain(Module &module, const CompileOptions &options);

} // namespace minic
