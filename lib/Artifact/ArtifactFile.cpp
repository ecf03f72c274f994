#include "minic/Artifact/ArtifactFile.h"

#include "Manifest.h"
#include "minic/Support/Checksum.h"
#include "minic/Support/File.h"
#include "minic/Support/LittleEndian.h"

namespace minic {
namespace {

/// Not text, and damaged by whoever changes line ends, so that it shows at once.
constexpr std::string_view magic("\x89MNC\r\n\x1a\n", 8);
/// Magic, u32 format, u32 zero, u64 size of the file, u64 size of the manifest; then manifest, blobs and checksum.
constexpr size_t headerSize = 32;
/// A plan of ten thousand launches has a manifest of some MiB; a parsed one takes up to twenty times its text.
constexpr uint64_t maxManifest = 64 << 20;

std::string ofBytes(uint64_t part, uint64_t whole) { return std::to_string(part) + " of " + std::to_string(whole) + " bytes"; }

} // namespace

bool isArtifact(std::string_view bytes) { return bytes.starts_with(magic); }

std::string serializeArtifacts(std::span<const Artifact> artifacts) {
  auto [manifest, blobs] = writeManifest(artifacts);
  std::string bytes(magic);
  appendLittleEndian(bytes, artifactFormat, 4);
  appendLittleEndian(bytes, 0, 4);
  appendLittleEndian(bytes, headerSize + manifest.size() + blobs.size() + checksumSize, 8);
  appendLittleEndian(bytes, manifest.size(), 8);
  bytes += manifest;
  bytes += blobs;
  return bytes + checksum(bytes);
}

Expected<std::vector<Artifact>> deserializeArtifacts(std::string_view bytes, const std::string &name, std::string *writer) {
  auto bad = [&](const std::string &why, std::string fix = {}) {
    return Diagnostic{.code = ErrorCode::BadArtifact, .message = name + " " + why, .fix = std::move(fix)};
  };
  const std::string again = "compile the graph again, or copy the file again";
  if (bytes.empty() || !magic.starts_with(bytes.substr(0, magic.size())))
    return bad("is not a minic artifact", "`minic compile GRAPH.ir -o FILE.mnc` writes one");
  if (bytes.size() < headerSize + checksumSize)
    return bad("is cut off: it has " + ofBytes(bytes.size(), headerSize + checksumSize) + " that the smallest artifact has", again);
  if (uint64_t format = readLittleEndian(bytes, 8, 4); format != artifactFormat)
    return bad("has artifact format " + std::to_string(format) + ", but minic " MINIC_VERSION " reads format " +
                   std::to_string(artifactFormat),
               "compile the graph again with this minic");
  uint64_t size = readLittleEndian(bytes, 16, 8), manifestSize = readLittleEndian(bytes, 24, 8);
  if (bytes.size() < size)
    return bad("is cut off: it has " + ofBytes(bytes.size(), size), again);
  if (bytes.size() > size)
    return bad("is damaged: it has " + std::to_string(bytes.size()) + " bytes where it says " + std::to_string(size), again);
  std::string_view checked = bytes.substr(0, bytes.size() - checksumSize);
  if (bytes.substr(checked.size()) != checksum(checked))
    return bad("is damaged: its checksum is not that of its bytes", again);

  // What is wrong from here on was written so.
  std::string_view body = checked.substr(headerSize);
  if (manifestSize > body.size() || manifestSize > maxManifest)
    return bad("is no valid artifact: its header says that it has a manifest of " + std::to_string(manifestSize) + " bytes");
  ManifestContents contents = readManifest(body.substr(0, manifestSize), body.substr(manifestSize));
  if (!contents.fault.empty())
    return bad("is no valid artifact: " + contents.fault);
  if (writer)
    *writer = std::move(contents.writer);
  return std::move(contents.artifacts);
}

Expected<std::vector<Artifact>> readArtifacts(const std::filesystem::path &path) {
  auto bytes = readFile(path);
  if (!bytes)
    return bytes.takeErrors();
  return deserializeArtifacts(*bytes, "'" + path.string() + "'");
}

Expected<void> writeArtifacts(const std::filesystem::path &path, std::span<const Artifact> artifacts) {
  return replaceFile(path, serializeArtifacts(artifacts));
}

Expected<size_t> pickArtifact(std::span<const Artifact> artifacts, int computeCapability) {
  if (computeCapability == 0 && !artifacts.empty())
    return size_t(0);
  std::optional<size_t> best;
  TargetDevices bestDevices;
  std::string targets;
  for (size_t i = 0; i < artifacts.size(); ++i) {
    targets += (i ? ", " : "") + artifacts[i].target;
    auto devices = devicesOf(artifacts[i].target);
    int capability = devices ? devices->computeCapability : 0;
    if (!devices || (devices->exact ? capability != computeCapability : capability > computeCapability))
      continue;
    if (!best || devices->exact || (!bestDevices.exact && capability > bestDevices.computeCapability)) {
      best = i;
      bestDevices = *devices;
    }
  }
  if (best)
    return *best;
  std::string device = "sm_" + std::to_string(computeCapability);
  return Diagnostic{.code = ErrorCode::NoCodeForDevice,
                    .message = "the artifact is for " + (targets.empty() ? "no target" : targets) + ", the device is " + device,
                    .fix = "compile the graph with a --target that this device runs"};
}

} // namespace minic
