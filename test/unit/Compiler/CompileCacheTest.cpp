// What an artifact is found by in the cache, and that it comes back with the places of the module that asks.
#include "minic/Compiler/CompileCache.h"

#include "minic/Artifact/ArtifactFile.h"
#include "minic/CodeGen/CodeGen.h"
#include "minic/Support/BuildId.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <unistd.h>

using namespace minic;

namespace {

const std::string graph =
    "minic 1\ngraph @g(%x: tensor<Nx4xf32>) -> (y: tensor<Nx4xf32>) {\n  %y = exp %x : tensor<Nx4xf32>\n  return %y\n}\n";

std::string keyOf(const std::string &text, const CompileOptions &options = {}) {
  Context context;
  auto module = loadModule(context, SourceBuffer("g.ir", text), options);
  EXPECT_TRUE(module) << text;
  return module ? ArtifactEntry(**module, options).key().name() : "";
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(CompileCache, PlacesAndCommentsAreNotInTheKey) {
  EXPECT_EQ(keyOf(graph), keyOf(replaced(graph, "graph @g", "// a comment\n\n\ngraph @g")));
  EXPECT_EQ(keyOf(graph), keyOf(replaced(graph, "%y = exp %x :", "%y  =  exp   %x   :")));
}

TEST(CompileCache, AllThatAnArtifactFollowsFromIsInTheKey) {
  std::vector<CompileOptions> others(9);
  others[0].target = "sm_80";
  others[1].numerics = "fast";
  others[2].dims["N"] = 7;
  others[3].specializations = {"N == 1"};
  others[4].eager = true;
  others[5].anyStrides = false;
  others[6].matmul = MatmulProvider::Generated;
  others[7].withCode = false;
  others[8].graph = "g";
  std::set<std::string> keys{keyOf(graph), keyOf(replaced(graph, "exp", "log")), keyOf(replaced(graph, "@g", "@h"))};
  EXPECT_EQ(keys.size(), 3u);
  for (const CompileOptions &options : others)
    keys.insert(keyOf(graph, options));
  EXPECT_EQ(keys.size(), 12u);
}

TEST(CompileCache, TheBuildsAreInTheKey) {
  Context context;
  auto module = loadModule(context, SourceBuffer("g.ir", graph), {});
  ASSERT_TRUE(module);
  ArtifactEntry entry(**module, {});
  std::map<std::string, std::string> fields;
  for (const CacheKey::Field &field : entry.key().fields())
    fields[field.name] = field.text;
  EXPECT_TRUE(fields["minic"].ends_with(" " + buildIdOf(reinterpret_cast<const void *>(&loadModule)))) << fields["minic"];
  EXPECT_EQ(fields["llvm"], llvmVersion() + " " + llvmBuildId());
  EXPECT_GT(llvmBuildId().size(), 20u);
}

class Kept : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/minic-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    auto opened = CacheStore::open({.directory = folder});
    ASSERT_TRUE(opened);
    options.cache.store = std::move(*opened);
    options.withCode = false;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  Expected<Artifact> compiled(const std::string &text) {
    Context context;
    auto module = loadModule(context, SourceBuffer("g.ir", text), options);
    if (!module)
      return module.takeErrors();
    return compile(**module, options);
  }
  std::string folder;
  CompileOptions options;
};

TEST_F(Kept, ComesBackAsItWasMade) {
  auto made = compiled(graph);
  ASSERT_TRUE(made);
  options.cache.policy = CachePolicy::MustHit;
  auto kept = compiled(graph);
  ASSERT_TRUE(kept);
  EXPECT_EQ(serializeArtifacts({&*made, 1}), serializeArtifacts({&*kept, 1}));
  auto other = compiled(replaced(graph, "exp", "log"));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.errors().front().code, ErrorCode::NotCached);
}

TEST_F(Kept, HasThePlacesOfTheModuleThatAsks) {
  ASSERT_TRUE(compiled(graph));
  std::string lower = replaced(graph, "graph @g", "\n\n\n\n\n\n\ngraph @g");
  options.cache.policy = CachePolicy::MustHit;
  auto kept = compiled(lower);
  ASSERT_TRUE(kept);
  options.cache.store = nullptr;
  options.cache.policy = CachePolicy::Use;
  auto fresh = compiled(lower);
  ASSERT_TRUE(fresh);
  EXPECT_EQ(serializeArtifacts({&*kept, 1}), serializeArtifacts({&*fresh, 1}));
  ASSERT_FALSE(kept->kernels.empty());
  EXPECT_EQ(kept->kernels[0].ops, std::vector<std::string>{"exp at 10:8"});
}

TEST_F(Kept, PlacesThatWereOneAndAreNotAreAMiss) {
  auto text = [](const std::string &second) {
    return "minic 1\ngraph @g(%x: tensor<4xf32>) -> (y: tensor<4xf32>) at fused {\n"
           "  %a = fusion %x { ^(%b: tensor<4xf32>):\n    %c = exp %b : tensor<4xf32> loc(7:7)\n    %d = neg %c : tensor<4xf32> "
           "loc(" +
           second + ")\n    yield %d loc(7:7)\n  } : tensor<4xf32> loc(7:7)\n  return %a loc(7:7)\n}\n";
  };
  ASSERT_TRUE(compiled(text("7:7")));
  EXPECT_EQ(keyOf(text("7:7"), options), keyOf(text("9:9"), options));
  options.cache.policy = CachePolicy::MustHit;
  EXPECT_TRUE(compiled(text("7:7")));
  auto apart = compiled(text("9:9"));
  ASSERT_FALSE(apart);
  EXPECT_EQ(apart.errors().front().code, ErrorCode::NotCached);
}

TEST_F(Kept, RefreshMakesItAnew) {
  ASSERT_TRUE(compiled(graph));
  options.cache.policy = CachePolicy::Refresh;
  ASSERT_TRUE(compiled(graph));
  EXPECT_EQ(options.cache.store->info().kept, 2u);
  EXPECT_EQ(options.cache.store->info().hits, 0u);
}

TEST_F(Kept, WatchersSeeThePasses) {
  ASSERT_TRUE(compiled(graph));
  int passes = 0;
  options.passes.afterPass = [&](const Pass &, Module &) { ++passes; };
  ASSERT_TRUE(compiled(graph));
  EXPECT_GT(passes, 0);
  options.cache.policy = CachePolicy::MustHit;
  auto refused = compiled(graph);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.errors().front().code, ErrorCode::NotCached);
}

TEST(BuildId, OfThisProgramAndOfTheCLibrary) {
  std::string own = buildIdOf(reinterpret_cast<const void *>(&keyOf)), c = buildIdOf(reinterpret_cast<const void *>(&getpid));
  EXPECT_FALSE(own.empty());
  EXPECT_FALSE(c.empty());
  EXPECT_NE(own, c);
  EXPECT_EQ(own, buildIdOf(reinterpret_cast<const void *>(&replaced)));
  EXPECT_EQ(buildIdOf(nullptr), "");
}

} // namespace
