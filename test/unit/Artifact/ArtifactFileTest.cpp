#include "minic/Artifact/ArtifactFile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace minic;
using Kind = PlanStep::Kind;

namespace {

const DimExpr n = DimExpr::name("N"), m = DimExpr::name("M");

/// Every kind of step, parameter and blob, for one target.
Artifact sample(std::string target) {
  Artifact artifact{.target = std::move(target), .numerics = "default", .text = "minic 1\nplan ...\n"};
  artifact.kernels = {
      {.name = "g__add",
       .ops = {"add at 2:8", "mul at 3:8"},
       .ptx = std::string("ptx of add\0", 11),
       .cubin = "\x7f"
                "ELF",
       .params = {{"x"}, {"c"}, {"t"}},
       .dims = {n, m},
       .threads = 128,
       .sharedBytes = 1024,
       .dynamicSharedBytes = 65536,
       .waitsForLaunches = true},
      {.name = "g__dot",
       .entry = "dot",
       .ptx = "ptx of dot",
       .params = {{"t", TensorMapSpec{DType::BF16, {n, DimExpr(64)}, {32, 64}, 128}},
                  {"y", TensorMapSpec{DType::F32, {n, DimExpr(32)}, {32, 32}, 128, true}}},
       .threads = 384},
      {.name = "g__any", .ptx = "ptx of any", .params = {{"x", {}, 2}, {"y", {}, 2}}, .dims = {m, n * 2}, .threads = 32}};
  Plan &plan = artifact.plans.emplace_back();
  plan.name = "g";
  plan.inputs = {{"x", DType::F32, {n, m * 4}}};
  plan.results = {{"y", DType::BF16, {DimExpr::ceilDiv(n, 2), DimExpr(64)}}};
  plan.buffers = {{plan.inputs[0]},
                  {{"c", DType::I32, {DimExpr(2)}}},
                  {{"t", DType::F32, {n, m * 4}}},
                  {{"", DType::F32, {n * m * 4}}},
                  {{"kept", DType::F32, {n, m * 4}}},
                  {{"out", DType::BF16, {DimExpr::ceilDiv(n, 2), DimExpr(64)}}},
                  {{"squares", DType::F32, {n, n}}},
                  {{"bias", DType::F32, {n}}}};
  artifact.constants = {std::vector<std::byte>(8)};
  for (size_t i = 0; i < 8; ++i)
    artifact.constants[0][i] = std::byte(i * 33);
  plan.steps = {{.kind = Kind::Constant, .result = 1, .constant = 0},
                {.kind = Kind::Alloc, .result = 2},
                {.kind = Kind::View, .result = 3, .operands = {2}},
                {.kind = Kind::Copy, .result = 4, .operands = {0}},
                {.kind = Kind::Launch, .operands = {0, 1, 2}, .kernel = 0, .grid = {DimExpr::ceilDiv(n, 128), m}},
                {.kind = Kind::Alloc, .result = 5},
                {.kind = Kind::Launch, .operands = {3, 5}, .kernel = 1, .grid = {DimExpr(7)}},
                {.kind = Kind::Alloc, .result = 6},
                {.kind = Kind::Alloc, .result = 7},
                {.kind = Kind::LibraryCall, .operands = {2, 4, 7, 6}, .matmul = {false, true, MatmulEpilogue::Bias}}};
  plan.resultBuffers = {5};

  // Behind it one for tensors of any strides.
  Plan &any = artifact.plans.emplace_back();
  any.name = "g";
  any.inputs = {artifact.plans[0].inputs[0]};
  any.results = {artifact.plans[0].results[0]};
  any.inputs[0].strided = any.results[0].strided = true;
  any.buffers = {{any.inputs[0]}, {any.results[0]}};
  any.steps = {{.kind = Kind::Alloc, .result = 1}, {.kind = Kind::Launch, .operands = {0, 1}, .kernel = 2, .grid = {n}}};
  any.resultBuffers = {1};
  return artifact;
}

std::vector<Artifact> samples() { return {sample("sm_80"), sample("sm_90a")}; }

void expectSame(const TensorSpec &a, const TensorSpec &b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.strided, b.strided);
}

void expectSame(const KernelCode &a, const KernelCode &b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.ops, b.ops);
  EXPECT_EQ(a.entry, b.entry);
  EXPECT_EQ(a.ptx, b.ptx);
  EXPECT_EQ(a.cubin, b.cubin);
  EXPECT_EQ(a.dims, b.dims);
  EXPECT_EQ(a.threads, b.threads);
  EXPECT_EQ(a.sharedBytes, b.sharedBytes);
  EXPECT_EQ(a.waitsForLaunches, b.waitsForLaunches);
  EXPECT_EQ(a.dynamicSharedBytes, b.dynamicSharedBytes);
  ASSERT_EQ(a.params.size(), b.params.size());
  for (size_t i = 0; i < a.params.size(); ++i) {
    EXPECT_EQ(a.params[i].name, b.params[i].name);
    EXPECT_EQ(a.params[i].stridedAxes, b.params[i].stridedAxes);
    ASSERT_EQ(a.params[i].map.has_value(), b.params[i].map.has_value());
    if (!a.params[i].map)
      continue;
    EXPECT_EQ(a.params[i].map->dtype, b.params[i].map->dtype);
    EXPECT_EQ(a.params[i].map->shape, b.params[i].map->shape);
    EXPECT_EQ(a.params[i].map->box, b.params[i].map->box);
    EXPECT_EQ(a.params[i].map->swizzle, b.params[i].map->swizzle);
    EXPECT_EQ(a.params[i].map->tf32, b.params[i].map->tf32);
  }
}

void expectSame(const Plan &a, const Plan &b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.resultBuffers, b.resultBuffers);
  ASSERT_EQ(a.inputs.size(), b.inputs.size());
  for (size_t i = 0; i < a.inputs.size(); ++i)
    expectSame(a.inputs[i], b.inputs[i]);
  ASSERT_EQ(a.results.size(), b.results.size());
  for (size_t i = 0; i < a.results.size(); ++i)
    expectSame(a.results[i], b.results[i]);
  ASSERT_EQ(a.buffers.size(), b.buffers.size());
  for (size_t i = 0; i < a.buffers.size(); ++i)
    expectSame(a.buffers[i].spec, b.buffers[i].spec);
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_EQ(a.steps[i].kind, b.steps[i].kind);
    EXPECT_EQ(a.steps[i].result, b.steps[i].result);
    EXPECT_EQ(a.steps[i].operands, b.steps[i].operands);
    EXPECT_EQ(a.steps[i].kernel, b.steps[i].kernel);
    EXPECT_EQ(a.steps[i].constant, b.steps[i].constant);
    EXPECT_EQ(a.steps[i].grid, b.steps[i].grid);
    EXPECT_EQ(a.steps[i].matmul, b.steps[i].matmul);
  }
}

void expectSame(const Artifact &a, const Artifact &b) {
  EXPECT_EQ(a.target, b.target);
  EXPECT_EQ(a.numerics, b.numerics);
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.constants, b.constants);
  ASSERT_EQ(a.kernels.size(), b.kernels.size());
  for (size_t i = 0; i < a.kernels.size(); ++i)
    expectSame(a.kernels[i], b.kernels[i]);
  ASSERT_EQ(a.plans.size(), b.plans.size());
  for (size_t i = 0; i < a.plans.size(); ++i)
    expectSame(a.plans[i], b.plans[i]);
}

uint64_t littleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

std::string littleEndian(uint64_t value, size_t width) {
  std::string bytes;
  for (size_t i = 0; i < width; ++i)
    bytes += char(value >> (8 * i) & 0xff);
  return bytes;
}

std::string manifestOf(const std::string &file) { return file.substr(32, littleEndian(std::string_view(file).substr(24, 8))); }

/// The same file with another manifest (or other bytes up to the checksum), sizes and checksum made right again.
std::string seal(std::string_view manifest, std::string_view blobs) {
  std::string file = std::string("\x89MNC\r\n\x1a\n", 8) + littleEndian(artifactFormat, 4) + littleEndian(0, 4) +
                     littleEndian(32 + manifest.size() + blobs.size() + 16, 8) + littleEndian(manifest.size(), 8);
  file += manifest;
  file += blobs;
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits(file.data(), file.size()));
  return file + std::string(reinterpret_cast<const char *>(digest.digest), 16);
}

std::string blobsOf(const std::string &file) {
  size_t start = 32 + manifestOf(file).size();
  return file.substr(start, file.size() - 16 - start);
}

std::string messageOf(std::string_view bytes) {
  auto artifacts = deserializeArtifacts(bytes);
  if (artifacts)
    return "no error";
  EXPECT_EQ(artifacts.errors().front().code, ErrorCode::BadArtifact);
  return artifacts.errors().front().message;
}

TEST(ArtifactFile, GivesBackWhatWasWritten) {
  std::vector<Artifact> artifacts = samples();
  std::string bytes = serializeArtifacts(artifacts), writer;
  EXPECT_TRUE(isArtifact(bytes));
  auto read = deserializeArtifacts(bytes, "the data", &writer);
  ASSERT_TRUE(read) << read.errors().front().message;
  ASSERT_EQ(read->size(), 2u);
  for (size_t i = 0; i < 2; ++i)
    expectSame(artifacts[i], (*read)[i]);
  EXPECT_FALSE(writer.empty());
  EXPECT_EQ(serializeArtifacts(*read), bytes);
}

TEST(ArtifactFile, HasTheDocumentedLayout) {
  std::string bytes = serializeArtifacts(samples());
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x89MNC\r\n\x1a\n", 8));
  EXPECT_EQ(littleEndian(std::string_view(bytes).substr(8, 4)), 6u);
  EXPECT_EQ(littleEndian(std::string_view(bytes).substr(16, 8)), bytes.size());
  EXPECT_EQ(seal(manifestOf(bytes), blobsOf(bytes)), bytes);
  // The first blob is the first variant's text.
  EXPECT_TRUE(blobsOf(bytes).starts_with("minic 1\nplan ...\n" + std::string("ptx of add\0", 11) +
                                         "\x7f"
                                         "ELF"
                                         "ptx of dot"));
  EXPECT_NE(manifestOf(bytes).find(R"("text":{"offset":0,"size":17})"), std::string::npos);
}

TEST(ArtifactFile, RefusesWhatIsNoArtifact) {
  for (std::string text : {"", "graph @g()", "\x89PNG\r\n\x1a\n"}) {
    EXPECT_FALSE(isArtifact(text));
    EXPECT_EQ(messageOf(text), "the data is not a minic artifact");
  }
}

TEST(ArtifactFile, RefusesAnotherVersion) {
  std::string bytes = serializeArtifacts(samples());
  bytes[8] = 7;
  auto artifacts = deserializeArtifacts(bytes);
  ASSERT_FALSE(artifacts);
  EXPECT_NE(artifacts.errors().front().message.find("has artifact format 7, but minic "), std::string::npos);
  EXPECT_NE(artifacts.errors().front().message.find(" reads format 6"), std::string::npos);
  EXPECT_EQ(artifacts.errors().front().fix, "compile the graph again with this minic");
}

TEST(ArtifactFile, RefusesEveryTruncation) {
  std::string bytes = serializeArtifacts({{sample("sm_80")}});
  for (size_t size = 1; size < bytes.size(); ++size) {
    // In memory of its own, so that a read past the end is found.
    std::vector<char> part(bytes.begin(), bytes.begin() + std::ptrdiff_t(size));
    std::string message = messageOf({part.data(), part.size()});
    std::string whole = std::to_string(size < 48 ? 48 : bytes.size());
    ASSERT_TRUE(message.starts_with("the data is cut off: it has " + std::to_string(size) + " of " + whole + " bytes")) << message;
  }
  EXPECT_EQ(messageOf(bytes + "x"), "the data is damaged: it has " + std::to_string(bytes.size() + 1) + " bytes where it says " +
                                        std::to_string(bytes.size()));
}

TEST(ArtifactFile, RefusesEveryFlippedByte) {
  std::string bytes = serializeArtifacts({{sample("sm_80")}});
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int mask : {1, 0x80, 0xff}) {
      std::string flipped = bytes;
      flipped[i] = char(flipped[i] ^ mask);
      std::string message = messageOf(flipped), expected = i < 8    ? "is not a minic artifact"
                                                           : i < 12 ? "has artifact format"
                                                           : i < 16 ? "checksum"
                                                           : i < 24 ? "bytes"
                                                                    : "is damaged: its checksum is not that of its bytes";
      ASSERT_NE(message.find(expected), std::string::npos) << "byte " << i << ": " << message;
    }
}

/// The message for a manifest in which `from` became `to`.
std::string messageFor(std::string_view from, std::string_view to) {
  std::string bytes = serializeArtifacts(samples()), manifest = manifestOf(bytes);
  size_t at = manifest.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << manifest;
  return messageOf(seal(manifest.replace(at, from.size(), to), blobsOf(bytes)));
}

TEST(ArtifactFile, NamesTheFieldThatIsWrong) {
  const std::string is = "the data is no valid artifact: ";
  EXPECT_EQ(messageFor("{\"minic", "{minic"), is + "its manifest is no JSON");
  EXPECT_EQ(messageFor("\"target\"", "\"aim\""), is + "variants[0].target is missing");
  EXPECT_EQ(messageFor("\"sm_80\"", "\"gpu\""), is + "variants[0].target is no target: 'gpu'");
  EXPECT_EQ(messageFor("\"sm_80\"", "\"sm_90a\""), is + "variants has the target 'sm_90a' twice");
  EXPECT_EQ(messageFor("\"default\"", "\"sloppy\""), is + "variants[0].numerics is 'sloppy', expected one of exact, default, fast");
  EXPECT_EQ(messageFor("\"name\":\"g\",\"results\":[{\"buffer\":1", "\"name\":\"h\",\"results\":[{\"buffer\":1"),
            is + "variants are not of one graph");
  EXPECT_EQ(messageFor("\"strided\":true", "\"strided\":1"),
            is + "variants[0].plans[1].buffers[0].strided is neither true nor false");
  EXPECT_EQ(
      messageFor("\"stridedAxes\":2", "\"stridedAxes\":1"),
      is + "variants[0] does not hold together: the plan of 'g' is damaged: it step 1 gives a kernel another number of strides "
           "than it takes");
  EXPECT_EQ(messageFor("\"constant\":0", "\"constant\":1"),
            is + "variants[0] does not hold together: the plan of 'g' is damaged: it step 0 uses an unknown constant");
  EXPECT_EQ(messageFor("\"name\":\"g\"", "\"name\":\"\\u001b\""), is + "variants[0].plans[0].name has a control character");
  EXPECT_EQ(messageFor("\"name\":\"g\"", "\"name\":7"), is + "variants[0].plans[0].name is no text");
  EXPECT_EQ(messageFor("\"threads\":128", "\"threads\":-1"),
            is + "variants[0].kernels[0].threads is no number from 0 to 2147483647");
  EXPECT_EQ(messageFor("\"threads\":128", "\"threads\":18446744073709551615"),
            is + "variants[0].kernels[0].threads is no number from 0 to 2147483647");
  EXPECT_EQ(messageFor("\"threads\":128", "\"threads\":1.5"),
            is + "variants[0].kernels[0].threads is no number from 0 to 2147483647");
  EXPECT_EQ(messageFor("\"dims\":[\"N\"", "\"dims\":[\"n\""), is + "variants[0].kernels[0].dims[0] is no size: 'n'");
  EXPECT_EQ(messageFor("\"4*M\"", "\"4*\""), is + "variants[0].plans[0].buffers[0].shape[1] is no size: '4*'");
  EXPECT_EQ(messageFor("\"i32\"", "\"i31\""), is + "variants[0].plans[0].buffers[1].dtype is no element type: 'i31'");
  EXPECT_EQ(messageFor("\"alloc\"", "\"take\""),
            is + "variants[0].plans[0].steps[1].kind is 'take', expected one of alloc, view, copy, constant, launch, library_call");
  EXPECT_EQ(messageFor("\"swizzle\":128", "\"swizzle\":96"), // Rows of 64 bf16 are 128 bytes.
            is + "variants[0].kernels[1].params[0].map has a box with rows of 128 bytes, which is no multiple of 96");
  EXPECT_EQ(messageFor("\"swizzle\":128}", "\"swizzle\":128,\"tf32\":true}"), // The first map is one of bf16.
            is + "variants[0].kernels[1].params[0].map rounds to tf32, which only f32 is rounded to");
  EXPECT_EQ(messageFor("\"tf32\":true", "\"tf32\":1"), is + "variants[0].kernels[1].params[1].map.tf32 is neither true nor false");
  EXPECT_EQ(messageFor("\"buffer\":5", "\"buffer\":8"), is + "variants[0].plans[0].results[0].buffer is no number from 0 to 7");
  EXPECT_EQ(
      messageFor("\"buffer\":5", "\"buffer\":0"),
      is + "variants[0] does not hold together: the plan of 'g' is damaged: it returns a buffer that is undefined, an input or "
           "returned already");
  EXPECT_EQ(messageFor("\"operands\":[2]", "\"operands\":{}"), is + "variants[0].plans[0].steps[2].operands is no list");
  EXPECT_EQ(messageFor("\"text\":{\"offset\":0,\"size\":17}", "\"text\":{\"offset\":0,\"size\":16}"),
            is + "variants[0].kernels[0].ptx starts at 17, but what comes before it ends at 16");
  EXPECT_EQ(messageFor("\"text\":{\"offset\":0,\"size\":17}", "\"text\":{\"offset\":0,\"size\":9999}"),
            is + "variants[0].text.size is no number from 0 to 120");
  EXPECT_EQ(messageFor("\"variants\":[", "\"variants\":[],\"x\":["), is + "variants is empty");
}

TEST(ArtifactFile, CallsOfLibraries) {
  const std::string is = "the data is no valid artifact: ", step = is + "variants[0].plans[0].steps[9]";
  EXPECT_EQ(messageFor("\"cublaslt\"", "\"libc\""), step + ".library is 'libc', expected cublaslt");
  EXPECT_EQ(messageFor("\"function\":\"matmul\"", "\"function\":\"system\""), step + ".function is 'system', expected matmul");
  for (const char *word : {"relu", "bias_relu"})
    EXPECT_EQ(messageFor("\"epilogue\":\"bias\"", "\"epilogue\":\"" + std::string(word) + "\""),
              step + ".epilogue is no epilogue: '" + word + "'");
  EXPECT_EQ(messageFor("\"transposed\":[false,true]", "\"transposed\":[true]"), step + ".transposed is not for two operands");
  EXPECT_EQ(messageFor("\"transposed\":[false,true]", "\"transposed\":[0,1]"), step + ".transposed[0] is neither true nor false");
  const std::string damaged = is + "variants[0] does not hold together: the plan of 'g' is damaged: it step 9 calls a library ";
  EXPECT_EQ(messageFor("\"transposed\":[false,true]", "\"transposed\":[false,false]"), damaged + "with operands that do not fit");
  EXPECT_EQ(messageFor("\"epilogue\":\"bias\"", "\"epilogue\":\"\""), damaged + "with operands that do not fit");
  EXPECT_EQ(messageFor("\"operands\":[2,4,7,6]", "\"operands\":[]"), damaged + "with operands that do not fit");
  EXPECT_EQ(messageFor("\"operands\":[2,4,7,6]", "\"operands\":[2,4,7,9]"),
            is + "variants[0] does not hold together: the plan of 'g' is damaged: it step 9 uses an undefined buffer");
  // Numbers of `exact` are those of one order of sums.
  std::vector<Artifact> exact = {sample("sm_80")};
  exact[0].numerics = "exact";
  EXPECT_NE(messageOf(serializeArtifacts(exact)).find("is not that of exact numerics"), std::string::npos);
}

TEST(ArtifactFile, RefusesBytesThatBelongToNothing) {
  std::string bytes = serializeArtifacts(samples());
  EXPECT_EQ(messageOf(seal(manifestOf(bytes), blobsOf(bytes) + "abc")),
            "the data is no valid artifact: 3 bytes after the manifest belong to nothing");
  // A manifest that is said to be longer than what there is.
  for (uint64_t size : {uint64_t(bytes.size() - 47), uint64_t(-1)}) {
    std::string longer = bytes;
    longer.replace(24, 8, littleEndian(size, 8));
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(longer.data(), longer.size() - 16));
    longer.replace(longer.size() - 16, 16, reinterpret_cast<const char *>(digest.digest), 16);
    EXPECT_EQ(messageOf(longer),
              "the data is no valid artifact: its header says that it has a manifest of " + std::to_string(size) + " bytes");
  }
}

/// One random change of a manifest.
void mutate(std::string &text, std::mt19937 &random) {
  static const char *const values[] = {
      "-1",   "0",    "1",        "5",        "6",     "2147483648", "9223372036854775808", "1e999",
      "null", "true", "\"\"",     "[]",       "{}",    "\"N\"",      "[[[[[[[[[[[[",        "\"launch\"",
      "17",   "4",    "\"view\"", "\"copy\"", "[0,1]", "[5]",        "\"sm_120\"",          "\"9*N*N\""};
  auto below = [&](size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random); };
  size_t at = below(text.size()), length = std::min(1 + below(12), text.size() - at);
  switch (below(5)) {
  case 0:
    text[at] = char(below(256));
    break;
  case 1:
    text.erase(at, length);
    break;
  case 2:
    text.insert(at, text.substr(below(text.size()), 1 + below(40)));
    break;
  default: { // A value becomes another one.
    size_t start = text.find(':', at);
    if (start == std::string::npos)
      return;
    size_t end = text.find_first_of(",}]", start + 1);
    text.replace(start + 1, end - start - 1, values[below(std::size(values))]);
  }
  }
}

TEST(ArtifactFile, WhateverTheManifestSaysIsAnErrorOrAnArtifact) {
  std::string bytes = serializeArtifacts({{sample("sm_80")}}), manifest = manifestOf(bytes), blobs = blobsOf(bytes);
  std::mt19937 random(20);
  int taken = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string changed = manifest;
    for (unsigned count = random() % 4 ? 1 : 3; count > 0 && !changed.empty(); --count)
      mutate(changed, random);
    auto artifacts = deserializeArtifacts(seal(changed, blobs));
    if (!artifacts) {
      ASSERT_EQ(artifacts.errors().front().code, ErrorCode::BadArtifact);
      continue;
    }
    ++taken;
    // What is taken holds together, so writing and reading it again changes nothing.
    std::string again = serializeArtifacts(*artifacts);
    auto second = deserializeArtifacts(again);
    ASSERT_TRUE(second) << second.errors().front().message << "\n" << changed;
    ASSERT_EQ(serializeArtifacts(*second), again);
  }
  // A change of a name is no fault; most others are.
  EXPECT_GT(taken, 100);
  EXPECT_LT(taken, 3000);
}

TEST(ArtifactFile, DeepNestingIsAnError) {
  std::string deep(1 << 20, '[');
  EXPECT_NE(messageOf(seal(deep, "")).find("is no JSON"), std::string::npos);
  std::string closed = "{\"minic\":\"0\",\"variants\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_NE(messageOf(seal(closed, "")).find("variants[0].target is missing"), std::string::npos);
}

TEST(ArtifactFile, IsReplacedAsAWhole) {
  std::string folder = testing::TempDir() + "minic-artifact-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::filesystem::path path = std::filesystem::path(folder) / "g.mnc";
  std::ofstream(path) << "an older file";
  ASSERT_TRUE(writeArtifacts(path, samples()));
  auto read = readArtifacts(path);
  ASSERT_TRUE(read) << read.errors().front().message;
  EXPECT_EQ(read->size(), 2u);
  // A folder cannot be replaced by a file; what was written beside it is gone again.
  std::filesystem::create_directory(std::filesystem::path(folder) / "d.mnc");
  auto failed = writeArtifacts(std::filesystem::path(folder) / "d.mnc", samples());
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.errors().front().code, ErrorCode::UnreadableFile);
  auto entries = std::filesystem::directory_iterator(folder);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 2);

  std::filesystem::resize_file(path, 100);
  auto cut = readArtifacts(path);
  ASSERT_FALSE(cut);
  EXPECT_TRUE(cut.errors().front().message.starts_with("'" + path.string() + "' is cut off: it has 100 of "));
  auto absent = readArtifacts(path.string() + ".absent");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.errors().front().message, "cannot read '" + path.string() + ".absent': No such file or directory");
  std::filesystem::remove_all(folder);
}

TEST(PickArtifact, TakesTheBestThatRuns) {
  struct Case {
    std::vector<std::string> targets;
    int capability, expected;
  };
  // PTX for sm_X runs on X and later; sm_90a on 9.0 alone.
  for (const Case &each : std::vector<Case>{{{"sm_90a"}, 90, 0},
                                            {{"sm_80", "sm_90a"}, 90, 1},
                                            {{"sm_90a", "sm_80"}, 90, 0},
                                            {{"sm_80", "sm_90a"}, 100, 0},
                                            {{"sm_80", "sm_89", "sm_90a"}, 120, 1},
                                            {{"sm_89", "sm_80"}, 86, 1},
                                            {{"sm_120", "sm_100", "sm_80"}, 120, 0},
                                            {{"sm_90a", "sm_80"}, 0, 0}}) {
    std::vector<Artifact> artifacts;
    for (const std::string &target : each.targets)
      artifacts.push_back(sample(target));
    auto picked = pickArtifact(artifacts, each.capability);
    ASSERT_TRUE(picked) << each.capability;
    EXPECT_EQ(int(*picked), each.expected) << each.capability;
  }
}

TEST(PickArtifact, SaysWhatThereIs) {
  std::vector<Artifact> artifacts = {sample("sm_90a"), sample("sm_89")};
  for (int capability : {75, 80}) {
    auto picked = pickArtifact(artifacts, capability);
    ASSERT_FALSE(picked);
    EXPECT_EQ(picked.errors().front().code, ErrorCode::NoCodeForDevice);
    EXPECT_EQ(picked.errors().front().message, "the artifact is for sm_90a, sm_89, the device is sm_" + std::to_string(capability));
    EXPECT_NE(picked.errors().front().fix, "");
  }
  EXPECT_FALSE(pickArtifact({}, 0));
}

} // namespace
