// The schedules that regions may have.
#include "minic/Transforms/Analysis/ScheduleSpace.h"
#include "minic/Driver/FusedRegions.h"
#include "minic/IR/Parser.h"
#include "minic/Interp/CpuDevice.h"
#include "minic/Support/File.h"
#include "minic/Transforms/Analysis/ScheduleChoice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace minic::test {
namespace {

/// The only region of a graph, with what its schedules are judged by.
struct Space {
  FusedRegion region;
  Context context;
  std::unique_ptr<Module> module;
  std::optional<RegionLoops> loops;
  const TargetInfo *target = nullptr;
  bool exact = false;

  Space(const std::string &text, CompileOptions options) {
    CpuDevice device;
    auto regions = fusedRegions(SourceBuffer("test.ir", text), options, device);
    if (!regions || regions->size() != 1) {
      ADD_FAILURE() << (regions ? std::to_string(regions->size()) : renderDiagnostics(regions.errors(), nullptr));
      return;
    }
    region = regions->front();
    module = std::move(*loadModule(context, SourceBuffer("region", region.fused), {}));
    target = *findTarget(region.target);
    exact = region.numerics == "exact";
    loops = std::move(*RegionLoops::of(onlyFusion(*module)));
  }

  std::vector<std::string> texts(size_t limit = 256) const {
    std::vector<std::string> list;
    for (const Schedule &schedule : scheduleSpace(*loops, *target, exact, limit))
      list.push_back(Attribute(schedule.toAttr()).str());
    return list;
  }
  /// What is wrong with a schedule, or "".
  std::string whyUnfit(const std::string &schedule) const {
    auto parsed = Schedule::parse(*parseAttribute(schedule)->asRecord(), loops->space.rank());
    return parsed ? minic::whyUnfit(*parsed, *loops, *target, exact).value_or("") : parsed.errors().front().message;
  }
};

std::string example(const std::string &name) { return *readFile(MINIC_EXAMPLES "/" + name + ".ir"); }
bool has(const std::vector<std::string> &list, const std::string &text) { return std::ranges::find(list, text) != list.end(); }

TEST(ScheduleSpace, AllCandidatesAreSchedulesThatFit) {
  const std::tuple<const char *, DimBindings, const char *> cases[] = {
      {"softmax", {{"M", 4096}, {"N", 1024}}, "default"},
      {"softmax", {{"M", 1823}, {"N", 781}}, "default"},
      {"softmax", {{"M", 1024}, {"N", 262144}}, "default"},
      {"bias_relu", {{"M", 8192}, {"N", 8192}}, "default"},
      {"linear_relu", {{"K", 64}, {"M", 64}, {"N", 64}}, "default"},
      {"softmax", {{"M", 4096}, {"N", 1024}}, "exact"}};
  for (const auto &[name, dims, numerics] : cases) {
    Space space(example(name), {.numerics = numerics, .dims = dims});
    std::vector<std::string> texts = space.texts();
    EXPECT_GT(texts.size(), space.exact ? 5u : 20u) << name;
    EXPECT_LE(texts.size(), 256u) << name;
    EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), texts.size()) << name;
    for (const std::string &text : texts)
      EXPECT_EQ(space.whyUnfit(text), "") << text;
    EXPECT_EQ(space.texts(10), std::vector<std::string>(texts.begin(), texts.begin() + 10));
  }
}

TEST(ScheduleSpace, TensorCoresHaveBlocksStagesAndBands) {
  Space space("graph @g(%x: tensor<4096x4096xbf16>, %w: tensor<4096x4096xbf16>) -> (y: tensor<4096x4096xbf16>) {\n"
              "  %y = matmul %x, %w : tensor<4096x4096xbf16>\n  return %y\n}\n",
              {});
  std::vector<std::string> texts = space.texts();
  auto named = [](int bm, int bn, int stages, int raster) {
    return "#matmul<bm = " + std::to_string(bm) + ", bn = " + std::to_string(bn) +
           ", bk = 64, unit = wgmma, stages = " + std::to_string(stages) + ", raster = " + std::to_string(raster) + ">";
  };
  EXPECT_EQ(texts[0], named(128, 256, 4, 8));
  EXPECT_TRUE(has(texts, named(128, 128, 4, 8)));
  EXPECT_TRUE(has(texts, named(64, 64, 8, 1)));
  EXPECT_TRUE(has(texts, named(128, 256, 2, 16)));
  // 8 stages of 48 KiB, and 4 of the result's 8 KiB.
  EXPECT_FALSE(has(texts, named(128, 256, 8, 8)));
  EXPECT_EQ(space.whyUnfit(named(128, 256, 8, 8)), "428032 bytes of shared memory, more than 232448");
  EXPECT_EQ(space.whyUnfit(named(256, 256, 4, 8)),
            "schedule #matmul, field 'bm': wgmma has 64 rows in a warpgroup, and there are one or two of those");
  for (const std::string &text : texts)
    EXPECT_EQ(space.whyUnfit(text), "") << text;
}

// Their columns stand side by side in shared memory and registers.
TEST(ScheduleSpace, SeveralProductsCountTogether) {
  Space space("graph @g(%x: tensor<4096x4096xbf16>, %v: tensor<4096x4096xbf16>, %w: tensor<4096x4096xbf16>) -> (y: "
              "tensor<4096x4096xbf16>) {\n"
              "  %p = matmul %x, %v : tensor<4096x4096xbf16>\n  %q = matmul %x, %w : tensor<4096x4096xbf16>\n"
              "  %y = mul %p, %q : tensor<4096x4096xbf16>\n  return %y\n}\n",
              {});
  auto named = [](int bn, int stages, const std::string &unit) {
    return "#matmul<bm = 128, bn = " + std::to_string(bn) + ", bk = 64, unit = " + unit + ", stages = " + std::to_string(stages) +
           ", raster = 8>";
  };
  std::vector<std::string> texts = space.texts();
  EXPECT_EQ(texts[0], named(128, 4, "wgmma"));
  EXPECT_TRUE(has(texts, named(64, 4, "wgmma")));
  EXPECT_FALSE(has(texts, named(256, 2, "wgmma")));
  EXPECT_EQ(space.whyUnfit(named(256, 2, "wgmma")), "512 columns of sums side by side, more than 256");
  // 8 stages of 48 KiB, and 4 of the result's 8 KiB.
  EXPECT_EQ(space.whyUnfit(named(128, 8, "wgmma")), "428032 bytes of shared memory, more than 232448");
  EXPECT_EQ(space.whyUnfit(named(64, 4, "mma, warps = [2, 2]")),
            "several products, which `unit = wgmma` alone has in one kernel with stages");
  for (const std::string &text : texts)
    EXPECT_EQ(space.whyUnfit(text), "") << text;
}

TEST(ScheduleSpace, TheDefaultIsFirstAndItsNeighboursFollow) {
  Space space(example("softmax"), {.dims = {{"M", 4096}, {"N", 1024}}});
  std::vector<std::string> texts = space.texts();
  auto own = chooseSchedule(space.loops->space, space.loops->ops, *space.target, false);
  ASSERT_TRUE(own);
  EXPECT_EQ(texts[0], Attribute(own->toAttr()).str());
  Schedule threads = *own, rows = *own, chunks = *own;
  threads.warps[1] *= 2; // Twice the threads of a row,
  rows.block[0] *= 2;    // twice the rows of a CTA,
  rows.warps[0] *= 2;
  chunks.block[1] /= 2; // and a row in two chunks.
  for (const Schedule &neighbour : {threads, rows, chunks})
    EXPECT_TRUE(has(texts, Attribute(neighbour.toAttr()).str())) << Attribute(neighbour.toAttr()).str();
}

TEST(ScheduleSpace, RefusesWhatTheTargetDoesNotHave) {
  Space space(example("softmax"), {.dims = {{"M", 4096}, {"N", 1024}}});
  EXPECT_EQ(space.whyUnfit("#rows<block = [64, 1024], warps = [64, 1], lanes = [1, 32], vec = 4>"),
            "schedule #rows, field 'warps': more than 32 warps");
  // 32 * 1024 elements on 64 threads.
  std::string registers = space.whyUnfit("#rows<block = [32, 1024], warps = [1, 2], lanes = [1, 32], vec = 4>");
  EXPECT_NE(registers.find(" registers for the values of a thread, more than 255"), std::string::npos) << registers;
  EXPECT_GE(std::stoi(registers), 512);
  EXPECT_EQ(space.whyUnfit("#rows<block = [1, 1024], warps = [1, 32], lanes = [1, 32], vec = 1, resident = 4>"),
            "131072 registers on a multiprocessor, more than 65536");
  EXPECT_EQ(space.whyUnfit("#rows<block = [1, 512], warps = [1, 2], lanes = [1, 32], vec = 4, cluster = 2>"),
            "a cluster, and no reduction along the last axis alone in one block");
  EXPECT_EQ(space.whyUnfit("#matmul<bm = 32, bn = 32, bk = 16, warps = [1, 1], lanes = [4, 8], vec = 4>"),
            "schedule #matmul needs a region with rows, columns and a contracted axis");
  Space old(example("softmax"), {.target = "sm_80", .dims = {{"M", 4096}, {"N", 1024}}});
  EXPECT_EQ(old.whyUnfit("#rows<block = [1, 1024], warps = [1, 2], lanes = [1, 32], vec = 4, cluster = 2>"),
            "a cluster, which sm_80 does not have");
  Space matmul(example("linear_relu"), {.dims = {{"K", 1024}, {"M", 1024}, {"N", 1024}}});
  EXPECT_EQ(matmul.whyUnfit("#matmul<bm = 128, bn = 128, bk = 64, warps = [4, 2], lanes = [4, 8], vec = 4>"),
            // 128 rows and 64 rows of k, each 16 bytes longer: 4 * (2 * 128 * 64) + 16 * (64 + 64).
            "67584 bytes of shared memory, more than 49152");
}

TEST(ScheduleSpace, ExactNumericsKeepTheOrderOfSums) {
  Space space(example("softmax"), {.numerics = "exact", .dims = {{"M", 4096}, {"N", 1024}}});
  std::string own = space.texts()[0];
  auto fields = [](const std::string &text, const char *field) {
    return parseAttribute(text)->asRecord()->find(field)->asInts()->back();
  };
  for (const std::string &text : space.texts())
    for (const char *field : {"block", "warps", "lanes"})
      EXPECT_EQ(fields(text, field), fields(own, field)) << text;
  EXPECT_EQ(space.whyUnfit("#rows<block = [1, 512], warps = [1, 1], lanes = [1, 32], vec = 4>"),
            "another order of a reduction, which exact numerics fix");
}

/// A library's product is a candidate right behind the default, where it is asked for and the region is one call.
TEST(FusedRegions, LibrarysProductIsACandidate) {
  auto schedules = [](const std::string &text, const std::string &numerics, size_t limit, bool withLibrary) {
    Space space(text, {.numerics = numerics});
    auto found = schedulesOf(space.region, limit, withLibrary);
    EXPECT_TRUE(found);
    std::vector<std::string> texts;
    for (const Schedule &schedule : *found)
      texts.push_back(Attribute(schedule.toAttr()).str());
    return texts;
  };
  auto product = [](const std::string &last) {
    return "graph @f(%x: tensor<64x32xf32>, %w: tensor<32x48xf32>) -> (y: tensor<64x48xf32>) {\n"
           "  %p = matmul %x, %w : tensor<64x48xf32>\n" +
           (last.empty() ? "  return %p\n}\n" : "  %y = " + last + " %p : tensor<64x48xf32>\n  return %y\n}\n");
  };
  const std::string library = "#library<name = cublaslt>";
  std::vector<std::string> with = schedules(product(""), "", 8, true), without = schedules(product(""), "", 8, false);
  EXPECT_EQ(with[1], library);
  with.erase(with.begin() + 1);
  EXPECT_EQ(with, without);
  EXPECT_EQ(schedules(product(""), "", 1, true).back(), library);
  for (const auto &[text, numerics] : {std::pair(product("exp"), ""), {product("relu"), ""}, {product(""), "exact"}}) {
    std::vector<std::string> none = schedules(text, numerics, 8, true);
    EXPECT_EQ(std::ranges::count(none, library), 0) << text;
  }
}

TEST(FusedRegions, AreProgramsOfTheirOwn) {
  CpuDevice device;
  auto regions =
      fusedRegions(SourceBuffer("mlp.ir", example("mlp")), {.dims = {{"M", 64}, {"K", 32}, {"H", 64}, {"N", 32}}}, device);
  ASSERT_TRUE(regions);
  ASSERT_EQ(regions->size(), 2u);
  const FusedRegion &first = (*regions)[0], &second = (*regions)[1];
  EXPECT_EQ(first.name, "h");
  EXPECT_EQ(second.name, "y");
  EXPECT_TRUE(first.operands.empty());
  EXPECT_EQ(first.inputOf, (std::vector<std::optional<size_t>>{0, 1, 2}));
  EXPECT_EQ(second.inputOf, (std::vector<std::optional<size_t>>{std::nullopt, 3, 4}));
  EXPECT_NE(second.operands.find("relu"), std::string::npos);
  EXPECT_NE(first.key.text, second.key.text);
  // Sizes that are equal have one letter: N and K are 32, H is 64.
  EXPECT_EQ(first.key.sizes, (std::vector<DimExpr>{32, 64}));
  EXPECT_EQ(first.key.text,
            "{:tensor<AxAxf32>:tensor<AxBxf32>:tensor<Bxf32>;matmul %0 %1:tensor<AxBxf32>;broadcast %2,dims=[1]:tensor<AxBxf32>;"
            "add %3 %4:tensor<AxBxf32>;relu %5:tensor<AxBxf32>;yield %6}");
}

} // namespace
} // namespace minic::test
