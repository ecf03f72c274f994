// What an artifact file says about its artifacts (JSON), and the bytes that this points into.
#pragma once

#include "minic/Artifact/Artifact.h"
#include "minic/Support/Expected.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace minic {

struct ManifestAndBlobs {
  std::string manifest, blobs;
};
ManifestAndBlobs writeManifest(std::span<const Artifact> artifacts);

/// Either what was read or a `fault`, which goes on after the file's name: "is no valid artifact: ...".
struct ManifestContents {
  std::vector<Artifact> artifacts;
  std::string writer; ///< The version of the minic that wrote the file.
  std::string fault;
};
ManifestContents readManifest(std::string_view manifest, std::string_view blobs);

/// What a target's name says of the devices that run its code.
struct TargetDevices {
  int computeCapability = 0; ///< 90 for sm_90.
  bool exact = false;        ///< Of this capability alone (sm_90a); else of it and all later ones.
};
/// nullopt for what is no such name.
std::optional<TargetDevices> devicesOf(std::string_view target);

} // namespace minic
