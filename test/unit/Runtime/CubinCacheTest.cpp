// Cubins that are kept, on a driver whose cubins are the PTX behind a head (test/tools/Inputs/driver/FakeDriver.cpp): no GPU is
// needed.
#include "../../../lib/Runtime/ModuleCache.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/stat.h>

using namespace minic;
using namespace minic::cuda;

namespace {

/// What the driver was asked, in order, and an empty log again.
std::string takeCalls(const std::filesystem::path &log) {
  std::string calls, line;
  for (std::ifstream file(log); std::getline(file, line);)
    calls += (calls.empty() ? "" : " ") + line;
  std::filesystem::remove(log);
  return calls;
}

/// Each `device()` is a later process: what was loaded is gone, what was kept is there.
class CubinCache : public testing::Test {
protected:
  void SetUp() override {
    if (!std::filesystem::exists(MINIC_FAKE_CUDA))
      GTEST_SKIP() << "no fake driver here";
    auto opened = DriverApi::open(MINIC_FAKE_CUDA);
    ASSERT_TRUE(opened) << opened.errors().front().message;
    api = *opened;
    std::string pattern = testing::TempDir() + "minic-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    set("FAKE_CUDA_LOG", (folder / "log").string());
  }
  void TearDown() override {
    for (const std::string &name : variables)
      unsetenv(name.c_str());
    if (!folder.empty())
      std::filesystem::remove_all(folder);
  }
  void set(const std::string &name, const std::string &value) {
    setenv(name.c_str(), value.c_str(), 1);
    variables.push_back(name);
  }
  void unset(const std::string &name) { unsetenv(name.c_str()); }
  std::string calls() { return takeCalls(folder / "log"); }

  CacheUse use(CachePolicy policy = CachePolicy::Use) {
    auto store = CacheStore::open({.directory = (folder / "cache").string(),
                                   .notice = [this](const Diagnostic &n) { notices += renderDiagnostic(n, nullptr); }});
    EXPECT_TRUE(store);
    return {std::move(*store), policy};
  }
  ModuleCache &device(const CacheUse &cache, std::string driver = "12080 abc") {
    modules = std::make_unique<ModuleCache>(api);
    modules->useCache(cache, {"Fake GPU", 90, std::move(driver)});
    return *modules;
  }
  static KernelCode kernel(std::string name = "k", const std::string &target = "sm_90a") {
    std::string ptx = ".version 8.1\n.target " + target + "\n.entry " + name + "() { ret; }\n";
    return {.name = std::move(name), .ptx = std::move(ptx)};
  }
  static std::string errorOf(Expected<CuFunction> found) { return found ? "no error" : renderDiagnostics(found.errors(), nullptr); }
  std::vector<std::filesystem::path> entries() const {
    std::vector<std::filesystem::path> list;
    for (const auto &entry : std::filesystem::directory_iterator(folder / "cache"))
      list.push_back(entry.path());
    return list;
  }

  DriverApi api;
  std::filesystem::path folder;
  std::vector<std::string> variables;
  std::unique_ptr<ModuleCache> modules;
  std::string notices;
};

void expectCounts(const ModuleCache &modules, uint64_t hits, uint64_t misses, uint64_t refused) {
  CubinCounts counts = modules.counts();
  EXPECT_EQ(counts.hits, hits);
  EXPECT_EQ(counts.misses, misses);
  EXPECT_EQ(counts.refused, refused);
}

TEST_F(CubinCache, IsLinkedOnceForAllProcesses) {
  CacheUse cache = use();
  ASSERT_TRUE(device(cache).find(kernel(), "sm_90a", true));
  EXPECT_EQ(calls(), "link cubin");
  expectCounts(*modules, 0, 1, 0);
  ASSERT_TRUE(modules->find(kernel(), "sm_90a", true)); // Loaded already.
  EXPECT_EQ(calls(), "");
  ASSERT_TRUE(device(cache).find(kernel(), "sm_90a", true));
  EXPECT_EQ(calls(), "cubin");
  expectCounts(*modules, 1, 0, 0);
  auto listed = cache.store->list();
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].kind, "cubin");
  EXPECT_EQ(listed[0].description, "k for Fake GPU");
  EXPECT_EQ(notices, "");
}

TEST_F(CubinCache, WithoutACacheTheDriverGetsText) {
  ASSERT_TRUE(device({}).find(kernel(), "sm_90a", true));
  EXPECT_EQ(calls(), "ptx");
  expectCounts(*modules, 0, 0, 0);
}

TEST_F(CubinCache, LinesAreKeptWhereThereAreAny) {
  KernelCode lined = kernel();
  lined.ptx += "\t.loc\t1 4 8\n";
  ASSERT_TRUE(device({}).find(lined, "sm_90a", true));
  EXPECT_EQ(calls(), "ptx lines");
  ASSERT_TRUE(device(use()).find(lined, "sm_90a", true));
  EXPECT_EQ(calls(), "link lines cubin");
}

TEST_F(CubinCache, ALineThatIsRefusedLeadsToTheGraph) {
  set("FAKE_CUDA_REFUSE", "ret");
  KernelCode lined{.name = "k",
                   .ops = {"matmul at 3:8", "exp at 4:8"},
                   .ptx = ".version 8.1\n.target sm_90a\n.entry k() {\n\t.loc\t1 4 8\n\tret;\n}\n\t.file\t1 \"g.ir\"\n"};
  std::string said = errorOf(device({}).find(lined, "sm_90a", true));
  EXPECT_NE(said.find("note: line 5 of the PTX: ret;\nit is from g.ir:4:8 (exp)\n"), std::string::npos) << said;
  EXPECT_EQ(said.find("--line-info"), std::string::npos) << said;
  said = errorOf(device({}).find(kernel(), "sm_90a", true)); // Without line info.
  EXPECT_NE(said.find("note: line 3 of the PTX: .entry k() { ret; }\n"), std::string::npos) << said;
  EXPECT_NE(said.find("fix: compile with --line-info"), std::string::npos) << said;
}

TEST_F(CubinCache, KernelsWhoseSharedMemoryTheLaunchSizesAreText) {
  KernelCode product = kernel();
  product.dynamicSharedBytes = 1024;
  ASSERT_TRUE(device(use()).find(product, "sm_90a", true));
  EXPECT_EQ(calls().substr(0, 3), "ptx");
  EXPECT_TRUE(entries().empty());
  EXPECT_NE(errorOf(device(use(CachePolicy::MustHit)).find(product, "sm_90a", true)).find("[E0910]"), std::string::npos);
}

TEST_F(CubinCache, CubinsOfTheArtifactNeedNone) {
  KernelCode code = kernel("k", "sm_80");
  code.cubin = std::string("\177ELF\0\n", 6) + "made before";
  ASSERT_TRUE(device(use(CachePolicy::MustHit)).find(code, "sm_80", true));
  EXPECT_EQ(calls(), "cubin");
  EXPECT_TRUE(entries().empty());
  ASSERT_TRUE(device(use()).find(code, "sm_80", false)); // It was made for another GPU.
  EXPECT_EQ(calls(), "link cubin");
}

TEST_F(CubinCache, WhateverItFollowsFromMakesAnother) {
  CacheUse cache = use();
  ASSERT_TRUE(device(cache).find(kernel(), "sm_90a", true));
  ASSERT_TRUE(device(cache).find(kernel("other"), "sm_90a", true));
  ASSERT_TRUE(device(cache).find(kernel("k", "sm_80"), "sm_80", true));
  ASSERT_TRUE(device(cache, "12090 abc").find(kernel(), "sm_90a", true)); // Another driver,
  ASSERT_TRUE(device(cache, "12080 abd").find(kernel(), "sm_90a", true)); // or another build of it.
  modules->useCache(cache, {"Fake GPU 2", 90, "12080 abc"});
  ASSERT_TRUE(modules->find(kernel("again"), "sm_90a", true));
  EXPECT_EQ(cache.store->info().kept, 6u);
  EXPECT_EQ(cache.store->info().hits, 0u);
}

TEST_F(CubinCache, DamagedIsLinkedAnewAndSaid) {
  ASSERT_TRUE(device(use()).find(kernel(), "sm_90a", true));
  ASSERT_EQ(entries().size(), 1u);
  {
    std::fstream file(entries()[0], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-20, std::ios::end);
    file.put('#');
  }
  calls();
  CacheUse cache = use();
  ASSERT_TRUE(device(cache).find(kernel(), "sm_90a", true));
  EXPECT_EQ(calls(), "link cubin"); // The driver does not see it.
  EXPECT_EQ(cache.store->info().damaged, 1u);
  EXPECT_NE(notices.find("is damaged"), std::string::npos) << notices;
  ASSERT_TRUE(device(use()).find(kernel(), "sm_90a", true));
  EXPECT_EQ(calls(), "cubin");
}

TEST_F(CubinCache, RefusedByTheDriverIsLinkedAnewAndSaidOnce) {
  set("FAKE_CUDA_STAMP", "a");
  ASSERT_TRUE(device(use()).find(kernel(), "sm_90a", true));
  calls();
  set("FAKE_CUDA_STAMP", "b");
  CacheUse cache = use();
  ASSERT_TRUE(device(cache).find(kernel(), "sm_90a", true));
  EXPECT_EQ(calls(), "refused link cubin");
  expectCounts(*modules, 0, 1, 1);
  CacheInfo info = cache.store->info();
  EXPECT_EQ(info.damaged, 1u);
  EXPECT_EQ(info.hits, 0u);
  EXPECT_EQ(info.misses, 1u);
  EXPECT_EQ(info.entries, 1u);
  EXPECT_NE(notices.find("is refused by the driver: "), std::string::npos) << notices;
  ASSERT_TRUE(device(cache).find(kernel(), "sm_90a", true));
  EXPECT_EQ(calls(), "cubin");
  notices.clear();
  set("FAKE_CUDA_STAMP", "a");
  ASSERT_TRUE(device(cache).find(kernel(), "sm_90a", true));
  EXPECT_EQ(calls(), "refused link cubin");
  EXPECT_EQ(notices, "");
}

TEST_F(CubinCache, WhatTheDeviceLacksIsNoFaultOfTheEntry) {
  ASSERT_TRUE(device(use()).find(kernel(), "sm_90a", true));
  calls();
  set("FAKE_CUDA_CUBIN", "2"); // CUDA_ERROR_OUT_OF_MEMORY
  EXPECT_NE(errorOf(device(use()).find(kernel(), "sm_90a", true)).find("cannot load kernel 'k'"), std::string::npos);
  EXPECT_EQ(calls(), "cubin");
  EXPECT_EQ(entries().size(), 1u);
  EXPECT_EQ(notices, "");
}

TEST_F(CubinCache, ErrorsAreThoseOfTheTextWithTheLog) {
  set("FAKE_CUDA_LINK", "218");
  set("FAKE_CUDA_PTX", "218");
  std::string without = errorOf(device({}).find(kernel(), "sm_90a", true));
  EXPECT_NE(without.find("cannot load kernel 'k'"), std::string::npos) << without;
  EXPECT_NE(without.find("the driver says: ptxas fatal : made up"), std::string::npos) << without;
  EXPECT_EQ(errorOf(device(use()).find(kernel(), "sm_90a", true)), without);
  EXPECT_TRUE(entries().empty());
  EXPECT_EQ(notices, "");
}

TEST_F(CubinCache, WhatOnlyTheLinkerRefusesRunsAndIsSaid) {
  set("FAKE_CUDA_LINK", "209");
  ASSERT_TRUE(device(use()).find(kernel("unlinked"), "sm_90a", true));
  EXPECT_EQ(calls(), "ptx");
  EXPECT_TRUE(entries().empty());
  EXPECT_NE(notices.find("the cubin of kernel 'unlinked' is not kept"), std::string::npos) << notices;
  EXPECT_NE(notices.find("the linker does not like it"), std::string::npos) << notices;
}

TEST_F(CubinCache, ACubinThatCannotBeLoadedIsNotKept) {
  set("FAKE_CUDA_CUBIN", "200");
  ASSERT_TRUE(device(use()).find(kernel(), "sm_90a", true));
  EXPECT_EQ(calls(), "link cubin ptx");
  EXPECT_TRUE(entries().empty());
}

TEST_F(CubinCache, MustHitLinksNothing) {
  auto missed = device(use(CachePolicy::MustHit)).find(kernel(), "sm_90a", true);
  ASSERT_FALSE(missed);
  EXPECT_EQ(missed.errors().front().code, ErrorCode::NotCached);
  EXPECT_EQ(calls(), "");
  ASSERT_TRUE(device(use()).find(kernel(), "sm_90a", true));
  calls();
  ASSERT_TRUE(device(use(CachePolicy::MustHit)).find(kernel(), "sm_90a", true));
  EXPECT_EQ(calls(), "cubin");
}

TEST_F(CubinCache, RefreshLinksAnew) {
  set("FAKE_CUDA_STAMP", "a");
  ASSERT_TRUE(device(use()).find(kernel(), "sm_90a", true));
  calls();
  set("FAKE_CUDA_STAMP", "b");
  ASSERT_TRUE(device(use(CachePolicy::Refresh)).find(kernel(), "sm_90a", true));
  EXPECT_EQ(calls(), "link cubin");
  ASSERT_TRUE(device(use()).find(kernel(), "sm_90a", true)); // What was kept before is replaced.
  EXPECT_EQ(calls(), "cubin");
}

} // namespace
