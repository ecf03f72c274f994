// The .mnc format: one graph compiled for one or more targets, as a file. docs/artifact-format.md says which byte is what.
#pragma once

#include "minic/Artifact/Artifact.h"
#include "minic/Support/Expected.h"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace minic {

/// The number that a file must have to be read. A change of the format or of how kernels are called is another number.
inline constexpr uint32_t artifactFormat = 6;

/// Whether these are the first bytes of an artifact file, of any version.
bool isArtifact(std::string_view bytes);

/// The same artifacts give the same bytes. They are one graph's, for targets that differ.
std::string serializeArtifacts(std::span<const Artifact> artifacts);
/// Any bytes give artifacts that can be run or the reason why not: BadArtifact, whose message begins with `name`. `writer`, if not
/// null, gets the version of the minic that wrote them.
Expected<std::vector<Artifact>> deserializeArtifacts(std::string_view bytes, const std::string &name = "the data",
                                                     std::string *writer = nullptr);

/// Errors: those of `deserializeArtifacts` and of the file, with its name.
Expected<std::vector<Artifact>> readArtifacts(const std::filesystem::path &path);
/// There is never half a file at `path`.
Expected<void> writeArtifacts(const std::filesystem::path &path, std::span<const Artifact> artifacts);

/// Which of the artifacts runs on a device of this compute capability (90 for 9.0): the one for just this device (sm_90a), else the
/// newest whose PTX it takes; 0, the interpreter, takes the first. NoCodeForDevice if none does.
Expected<size_t> pickArtifact(std::span<const Artifact> artifacts, int computeCapability);

} // namespace minic
