// Artifacts kept for later processes: what they are found by, and what is the same wherever a graph came from.
#pragma once

#include "minic/Cache/CacheStore.h"
#include "minic/Compiler/Compiler.h"

namespace minic {

/// The entry of a module that is about to be compiled, which holds what was chosen and nothing else. Made before the module is
/// lowered.
class ArtifactEntry {
public:
  ArtifactEntry(const Module &module, const CompileOptions &options);
  /// All that the artifact follows from: the module without places, what it is compiled with and for, the passes, and the builds of
  /// minic and LLVM.
  const CacheKey &key() const { return name; }
  /// The artifact that is kept, with the places (lines and columns) of this module's ops; nullopt if there is none.
  std::optional<Artifact> find(CacheStore &store) const;
  void keep(CacheStore &store, const Artifact &artifact) const;

private:
  CacheKey name;
  std::string title;
  std::vector<std::pair<uint32_t, uint32_t>> places; ///< Of all ops, in order: equal keys have as many.
};

} // namespace minic
