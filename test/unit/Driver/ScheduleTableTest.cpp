// Files of tuned schedules: reading, writing and merging, and which entry a region takes.
#include "minic/Artifact/RunPlan.h"
#include "minic/Driver/Driver.h"
#include "minic/Driver/FusedRegions.h"
#include "minic/IR/Parser.h"
#include "minic/Interp/CpuDevice.h"
#include "minic/Support/File.h"
#include "minic/Transforms/Analysis/ScheduleLookup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace minic::test {
namespace {

RecordAttr record(const std::string &text) { return *parseAttribute(text)->asRecord(); }

TunedSchedule entry(const char *device, bool finished = true) {
  return {.region = "{:tensor<AxBxf32>}",
          .sizes = {64, 256},
          .target = "sm_90a",
          .numerics = "default",
          .device = device,
          .title = "softmax.y",
          .own = record("#rows<block = [4, 256], warps = [4, 1], lanes = [1, 32], vec = 4>"),
          .best = record("#rows<block = [2, 256], warps = [2, 1], lanes = [1, 32], vec = 4>"),
          .ownUs = 12.5,
          .bestUs = 11.25,
          .finished = finished,
          .file = "s"};
}

//===- The text -===//

TEST(ScheduleTable, ReadsWhatItWrites) {
  ScheduleTable table;
  table.set(entry("cpu", false)); // Keys are sorted, whatever order they came in.
  table.set(entry("NVIDIA H200"));
  std::string text = table.text();
  EXPECT_EQ(text.substr(0, text.find("region ", 60)),
            "minic schedules 2\n\n// softmax.y\nregion {:tensor<AxBxf32>}\nsizes 64, 256\non sm_90a, default, NVIDIA H200\n"
            "default #rows<block = [4, 256], warps = [4, 1], lanes = [1, 32], vec = 4>, 12.500 us\n"
            "best #rows<block = [2, 256], warps = [2, 1], lanes = [1, 32], vec = 4>, 11.250 us\n\n// softmax.y\n");
  auto read = ScheduleTable::parse(SourceBuffer("s.txt", text));
  ASSERT_TRUE(read) << renderDiagnostics(read.errors(), nullptr);
  EXPECT_EQ(read->text(), text);
  EXPECT_FALSE(read->entries()[1].finished);
  EXPECT_EQ(read->entries()[0].where(), "s.txt:4");
  // An entry takes the place of that for the same, and files may be written one behind the other.
  TunedSchedule better = entry("cpu");
  better.bestUs = 1;
  table.set(better);
  EXPECT_EQ(table.entries().size(), 2u);
  EXPECT_EQ(table.find(entry("cpu"))->bestUs, 1);
  auto twice = ScheduleTable::parse(SourceBuffer("s.txt", text + text));
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.errors().front().message,
            "the region of line 19 has a schedule for these sizes on NVIDIA H200 at line 4 already");
}

TEST(ScheduleTable, KeepsCommentsBeforeRegions) {
  TunedSchedule described = entry("cpu");
  described.title = "softmax.y\nmeasured twice";
  described.sizes = {};
  ScheduleTable table;
  table.set(described);
  std::string text = table.text();
  EXPECT_NE(text.find("\n\n// softmax.y\n// measured twice\nregion {:tensor<AxBxf32>}\nsizes none\n"), std::string::npos) << text;
  std::string commented = text;
  commented.insert(commented.find("\n\n") + 1, "// the whole file\n");
  commented.insert(commented.find("sizes"), "// within\n");
  auto read = ScheduleTable::parse(SourceBuffer("s.txt", commented + "// behind\n"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->text(), text);
  EXPECT_EQ(read->looseComments, (std::vector<uint32_t>{2, 7, 12}));
}

TEST(ScheduleTable, SaysWhatIsWrongAndWhere) {
  std::string good = "minic schedules 2\nregion {}\nsizes 4096, 781\non sm_90a, default, cpu\n"
                     "default #rows<block = [4], warps = [4], lanes = [32], vec = 1>, 1.0 us\n"
                     "best #rows<block = [4], warps = [4], lanes = [32], vec = 1>, 1.0 us\n";
  ASSERT_TRUE(ScheduleTable::parse(SourceBuffer("s", good)));
  constexpr const char *sizes = "expected the sizes that the region's letters stand for, as in `sizes 4096, 781`, or `sizes none`";
  const std::tuple<const char *, const char *, uint32_t, const char *> cases[] = {
      {"minic schedules 2", "minic schedules 3", 1, "expected `minic schedules 2` as the first line"},
      {"minic schedules 2", "minic schedules 1", 1, "the file is of version 1, whose regions have no classes of sizes; tune again"},
      {"region", "regoin", 2, "expected `region ...`"},
      {"4096, 781", "4096 781", 3, sizes},
      {"4096, 781", "4096, ", 3, sizes},
      {"4096, 781", "N", 3, sizes},
      {"4096, 781", "1", 3, sizes},
      {"4096, 781", "99999999999999999999", 3, sizes},
      {"sizes 4096, 781\n", "", 3, "expected `sizes ...`"},
      {"sm_90a, ", "", 4, "expected a target, a numerics mode and a device, as in `on sm_90a, default, NVIDIA H200`"},
      {"1.0 us", "1,0 us", 5, "expected microseconds, not `1,0`"},
      {"1.0 us", "fast", 5, "expected a schedule and its time, as in `default #rows<...>, 12.500 us`"},
      {"default #rows<block = [4]", "default #rows<block = [3]", 5,
       "schedule #rows, field 'block': 3 is not a power of two between 1 and 1048576"},
      {"best #rows", "best [", 6, "expected a schedule, #rows<...>, #matmul<...> or #library<...>: "}};
  for (const auto &[from, to, line, message] : cases) {
    std::string text = good;
    text.replace(text.find(from), std::string_view(from).size(), to);
    auto table = ScheduleTable::parse(SourceBuffer("s", text));
    ASSERT_FALSE(table) << text;
    EXPECT_EQ(table.errors().front().message.substr(0, std::string_view(message).size()), message);
    EXPECT_EQ(table.errors().front().loc.line, line) << text;
  }
  // Cut off anywhere it is an error or whole entries, and never more.
  for (size_t size = 0; size < good.size(); ++size) {
    auto table = ScheduleTable::parse(SourceBuffer("s", good.substr(0, size)));
    EXPECT_TRUE(!table || table->entries().size() <= 1) << size;
  }
  auto cut = ScheduleTable::parse(SourceBuffer("s", good.substr(0, good.find("best"))));
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.errors().front().message, "expected `best ...` before the end of the file");
}

TEST(ScheduleTable, WhatMinicBringsIsGood) {
  for (const TunedSchedule &each : shippedSchedules().entries()) {
    EXPECT_TRUE(each.finished) << each.where();
    EXPECT_NE(each.best.name, "library") << each.where() << ": programs would need cuBLASLt unasked";
    EXPECT_TRUE(findTarget(each.target)) << each.where();
  }
  auto again = ScheduleTable::parse(SourceBuffer("all", shippedSchedules().text()));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->entries().size(), shippedSchedules().entries().size());
}

//===- Merging -===//

/// Entries of few keys that differ in what a merge decides by, often not at all.
ScheduleTable randomTable(std::mt19937 &random) {
  auto pick = [&](auto... values) {
    std::common_type_t<decltype(values)...> list[] = {values...};
    return list[random() % sizeof...(values)];
  };
  ScheduleTable table;
  for (int i = 0; i < 8; ++i) {
    TunedSchedule one = entry(pick("NVIDIA H200", "cpu"), pick(true, true, false));
    one.sizes = {pick(64, 128), pick(256, 512)};
    one.title = pick("a", "b");
    one.ownUs = pick(0.0, 4.0, 6.0);
    one.bestUs = pick(0.0, 2.0, 3.0);
    one.best = record(pick("#rows<block = [2, 256], warps = [2, 1], lanes = [1, 32], vec = 4>",
                           "#rows<block = [1, 256], warps = [1, 1], lanes = [1, 32], vec = 4>"));
    table.set(std::move(one));
  }
  return table;
}

std::string merged(std::initializer_list<ScheduleTable> tables) {
  ScheduleTable all;
  for (const ScheduleTable &table : tables)
    all.merge(table);
  return all.text();
}

TEST(ScheduleTable, MergesInAnyOrder) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    ScheduleTable a = randomTable(random), b = randomTable(random), c = randomTable(random);
    EXPECT_EQ(merged({a, b}), merged({b, a}));
    EXPECT_EQ(merged({a, a}), a.text());
    ScheduleTable left = a, right = b;
    left.merge(b);
    right.merge(c);
    EXPECT_EQ(merged({left, c}), merged({a, right}));
  }
}

TEST(ScheduleTable, MergesByWhatIsKnownBest) {
  auto tableOf = [](TunedSchedule one, double own, double best, uint32_t line) {
    one.ownUs = own;
    one.bestUs = best;
    one.line = line;
    ScheduleTable table;
    table.set(std::move(one));
    return table;
  };
  TunedSchedule other = entry("cpu"), unfinished = entry("cpu", false);
  other.best = other.own;
  // The finished one, though it gains less; then what gains more, though it is slower; then the quicker.
  ScheduleTable table = tableOf(unfinished, 10, 1, 4);
  EXPECT_EQ(table.merge(tableOf(other, 10, 9, 7)),
            (std::vector<std::string>{
                "s:7 (1.111 times as fast as its default) is taken, not s:4 (10.000 times as fast as its default, unfinished)"}));
  EXPECT_EQ(table.merge(tableOf(entry("cpu"), 20, 16, 10)),
            (std::vector<std::string>{
                "s:10 (1.250 times as fast as its default) is taken, not s:7 (1.111 times as fast as its default)"}));
  EXPECT_EQ(table.merge(tableOf(entry("cpu"), 10, 8, 13)), std::vector<std::string>()); // The same schedule is no conflict.
  ASSERT_EQ(table.entries().size(), 1u);
  EXPECT_EQ(table.entries()[0].line, 13u);
}

//===- Classes -===//

TEST(SizeClass, HasOneBlockAndOneAlignment) {
  auto same = [](int64_t a, int64_t b) { return SizeClass::of(a) == SizeClass::of(b); };
  EXPECT_TRUE(same(4096, 2064));  // 2049 to 4096, multiples of 16.
  EXPECT_FALSE(same(4096, 2048)); // Another block holds it.
  EXPECT_FALSE(same(4096, 4112));
  EXPECT_FALSE(same(1024, 1000)); // A multiple of 8 alone.
  EXPECT_TRUE(same(1000, 984));
  EXPECT_TRUE(same(781, 1023));
  EXPECT_FALSE(same(781, 782));
  EXPECT_TRUE(same(2, 2));
  EXPECT_FALSE(same(2, 3));
}

TEST(SizeClass, OfNamesFollowsFromFacts) {
  auto of = [](const DimExpr &size, const std::string &facts) {
    auto list = facts.empty() ? std::vector<DimFact>() : *parseDimFacts(facts);
    return SizeClass::of(size, list);
  };
  DimExpr n = DimExpr::name("N");
  EXPECT_EQ(of(n, ""), std::nullopt);
  EXPECT_EQ(of(n, "N <= 4096"), std::nullopt);
  EXPECT_EQ(of(n, "2048 <= N <= 4096"), std::nullopt); // 2048 is of another class.
  EXPECT_EQ(of(n, "2049 <= N <= 4096"), (SizeClass{4096, 1}));
  EXPECT_EQ(of(n * DimExpr(8), ""), std::nullopt);
}

//===- Lookup -===//

std::vector<std::string> chosen(const ScheduleLookup &lookup, std::vector<DimExpr> sizes, const std::string &unfit = "") {
  RegionKey key{"{:tensor<AxBxf32>}", std::move(sizes)};
  auto whyUnfit = [&](const RecordAttr &schedule) {
    return Attribute(schedule).str() == unfit ? std::string("too large") : std::string();
  };
  ScheduleOrigin origin = lookup.take(key, {}, "sm_90a", "default", whyUnfit);
  std::vector<std::string> texts{origin.entry ? origin.entry->sizesText() + (origin.isExact ? ", exactly" : "") : "none"};
  for (const auto &[other, why] : origin.others)
    texts.push_back(other->sizesText() + ": " + why);
  return texts;
}

TEST(ScheduleLookup, TakesTheSameSizesElseTheNearestOfTheirClass) {
  ScheduleTable table;
  uint32_t line = 0;
  for (std::vector<int64_t> sizes : {std::vector<int64_t>{64, 256}, {64, 144}, {48, 208}, {64, 512}, {64, 248}}) {
    TunedSchedule one = entry("NVIDIA H200");
    one.sizes = sizes;
    one.line = ++line;
    table.set(std::move(one));
  }
  ScheduleLookup lookup{.tables = {&table}};
  EXPECT_EQ(chosen(lookup, {64, 256})[0], "64, 256, exactly");
  EXPECT_EQ(chosen(lookup, {64, 144})[0], "64, 144, exactly");
  EXPECT_EQ(chosen(lookup, {64, 240})[0], "64, 256");
  EXPECT_EQ(chosen(lookup, {64, 160})[0], "64, 144");
  EXPECT_EQ(chosen(lookup, {48, 192})[0], "48, 208");
  EXPECT_EQ(chosen(lookup, {64, 520})[0], "none");
  EXPECT_EQ(chosen(lookup, {64, 241})[0], "none"); // Nobody reads 16 bytes there.
  EXPECT_EQ(chosen(lookup, {64, 232})[0], "64, 248");
  EXPECT_EQ(chosen(lookup, {DimExpr::name("M"), 256})[0], "none");
  EXPECT_EQ(chosen(lookup, {64, 240}),
            (std::vector<std::string>{"64, 256", "64, 248: it is for sizes 64, 248, which are of other classes than 64, 240",
                                      "64, 512: it is for sizes 64, 512, which are of other classes than 64, 240",
                                      "48, 208: that of s:1 is", "64, 144: that of s:1 is"}));
  EXPECT_EQ(chosen(lookup, {64, 256}, Attribute(entry("").best).str())[0], "none"); // What does not fit is not taken.
}

TEST(ScheduleLookup, TheFirstTableGoesBeforeTheOthers) {
  TunedSchedule users = entry("NVIDIA H200"), ours = entry("NVIDIA H200");
  users.file = "user";
  ours.file = "ours";
  users.best = users.own;
  ScheduleTable first, second;
  first.set(users);
  second.set(ours);
  RegionKey key{"{:tensor<AxBxf32>}", {64, 256}};
  ScheduleLookup lookup{.tables = {&first, &second}, .device = "NVIDIA H200"};
  auto fits = [](const RecordAttr &) { return std::string(); };
  EXPECT_EQ(lookup.take(key, {}, "sm_90a", "default", fits).entry->file, "user");
  auto usersDoesNot = [&](const RecordAttr &schedule) { return schedule == users.best ? std::string("too large") : std::string(); };
  EXPECT_EQ(lookup.take(key, {}, "sm_90a", "default", usersDoesNot).entry->file, "ours");
}

TEST(ScheduleLookup, SaysWhatIsNotUsed) {
  ScheduleTable table;
  table.set(entry("NVIDIA H200"));
  table.set(entry("NVIDIA H100"));
  TunedSchedule other = entry("NVIDIA H200");
  other.region = "{another}";
  table.set(other);
  table = *ScheduleTable::parse(SourceBuffer("s", table.text()));
  RegionKey key{"{:tensor<AxBxf32>}", {64, 256}}, nowhere{"{nowhere}", {}};
  auto fits = [](const RecordAttr &) { return std::string(); };
  ScheduleLookup lookup{.tables = {&table}, .device = "NVIDIA H100"};
  ScheduleReport report{lookup.take(key, {}, "sm_90a", "default", fits), lookup.take(nowhere, {}, "sm_90a", "default", fits)};
  EXPECT_NE(report[0].entry, nullptr);
  EXPECT_EQ(report[1].entry, nullptr);
  EXPECT_EQ(unusedSchedules(table, report),
            (std::vector<std::string>{"the schedule at s:11 is not used: it is for NVIDIA H200, not NVIDIA H100",
                                      "the schedule at line 18 of s is of other regions"}));
  lookup.device = "";
  report = {lookup.take(key, {}, "sm_80", "default", fits)};
  EXPECT_EQ(unusedSchedules(table, report)[0], "the schedule at s:4 is not used: it is for sm_90a, not sm_80");
  report = {lookup.take(key, {}, "sm_90a", "default", [](const RecordAttr &) { return std::string("too large"); })};
  EXPECT_EQ(unusedSchedules(table, report)[0], "the schedule at s:4 is not used: too large");
}

TEST(ScheduleLookup, WhatMinicBringsIsForGpusThatAreNamed) {
  using Tables = std::vector<const ScheduleTable *>;
  EXPECT_EQ(scheduleLookup({}).tables, Tables());
  EXPECT_EQ(scheduleLookup({.tunedFor = "NVIDIA H200"}).tables, Tables({&shippedSchedules()}));
  EXPECT_EQ(scheduleLookup({.shippedToo = false, .tunedFor = "NVIDIA H200"}).tables, Tables());
  auto users = std::make_shared<const ScheduleTable>();
  EXPECT_EQ(scheduleLookup({.schedules = users, .tunedFor = "NVIDIA H200"}).tables, Tables({users.get(), &shippedSchedules()}));
  EXPECT_EQ(scheduleLookup({.schedules = users}).tables, Tables({users.get()}));
}

//===- Numerics -===//

/// The schedule on the only region of a sum of rows, compiled with a table.
std::string compiledWith(const ScheduleTable &table, const std::string &numerics, const std::string &sizes) {
  Context context;
  CompileOptions options{.numerics = numerics};
  options.schedules = std::make_shared<const ScheduleTable>(table);
  auto module =
      loadModule(context,
                 SourceBuffer("g.ir", "graph @g(%x: tensor<" + sizes + "xf32>) -> (y: tensor<" + sizes.substr(0, sizes.find('x')) +
                                          "xf32>) {\n"
                                          "  %y = reduce sum %x, axes = [1] : tensor<" +
                                          sizes.substr(0, sizes.find('x')) + "xf32>\n  return %y\n}\n"),
                 options);
  EXPECT_TRUE(module) << renderDiagnostics(module.errors(), nullptr);
  EXPECT_TRUE(lowerTo(**module, Stage::Fused, options));
  for (Operation &op : (*module)->functions().front()->body())
    if (op.is(OpKind::Fusion))
      return op.attr("schedule")->str();
  return {};
}

TEST(ScheduleLookup, NearSizesKeepTheOrderOfExactSums) {
  // It cuts rows of 1024 into one warp's, and those of 960 in another way than the cost model.
  std::string narrow = "#rows<block = [1, 512], warps = [1, 2], lanes = [1, 32], vec = 4>";
  ScheduleTable table;
  for (const char *numerics : {"default", "exact"}) {
    TunedSchedule one = entry("cpu");
    one.region = "{:tensor<AxBxf32>;reduce %0,combiner=sum,axes=[1]:tensor<Axf32>;yield %1}";
    one.sizes = {4096, 1024};
    one.numerics = numerics;
    one.best = record(narrow);
    table.set(std::move(one));
  }
  std::string own = compiledWith({}, "default", "4096x960");
  ASSERT_NE(own, narrow);
  EXPECT_EQ(compiledWith(table, "default", "4096x960"), narrow);
  EXPECT_EQ(compiledWith(table, "default", "4096x1024"), narrow);
  EXPECT_EQ(compiledWith(table, "default", "4096x968"), compiledWith({}, "default", "4096x968"));
  EXPECT_EQ(compiledWith(table, "exact", "4096x960"), compiledWith({}, "exact", "4096x960"));
  EXPECT_EQ(compiledWith(table, "exact", "4096x1024"), compiledWith({}, "exact", "4096x1024"));
}

//===- Runs -===//

HostTensor randomTensor(std::mt19937 &random, std::vector<int64_t> shape) {
  HostTensor tensor(DType::F32, std::move(shape));
  std::vector<float> values(size_t(tensor.numElements()));
  for (float &value : values)
    value = float(std::normal_distribution()(random));
  std::memcpy(tensor.bytes().data(), values.data(), tensor.bytes().size());
  return tensor;
}

std::vector<float> valuesOf(const HostTensor &tensor) {
  std::vector<float> values(size_t(tensor.numElements()));
  std::memcpy(values.data(), tensor.bytes().data(), tensor.bytes().size());
  return values;
}

std::vector<double> softmax(const std::vector<float> &x, size_t columns) {
  std::vector<double> y(x.size());
  for (size_t row = 0; row < x.size(); row += columns) {
    double sum = 0;
    for (size_t i = 0; i < columns; ++i)
      sum += y[row + i] = std::exp(double(x[row + i]));
    for (size_t i = 0; i < columns; ++i)
      y[row + i] /= sum;
  }
  return y;
}

/// Every third schedule of the space at some sizes runs at other sizes of their classes, and gives what arithmetic gives; in exact
/// numerics the bits of the cost model's schedule.
TEST(ScheduleLookup, SchedulesOfNearSizesAreRight) {
  SourceBuffer source("softmax.ir", *readFile(MINIC_EXAMPLES "/softmax.ir"));
  CpuDevice device;
  std::mt19937 random(3);
  size_t used = 0;
  for (const char *numerics : {"default", "exact"})
    for (auto [tuned, asked] : {std::pair<int64_t, int64_t>{256, 208}, {250, 134}, {255, 131}, {1040, 2000}}) {
      auto regions = fusedRegions(source, {.numerics = numerics, .dims = {{"M", 7}, {"N", tuned}}}, device);
      ASSERT_TRUE(regions);
      const FusedRegion &region = regions->front();
      auto schedules = schedulesOf(region, 36);
      ASSERT_TRUE(schedules);
      std::vector<HostTensor> inputs{randomTensor(random, {5, asked})};
      std::vector<double> expected = softmax(valuesOf(inputs[0]), size_t(asked));
      CompileOptions options{.numerics = numerics, .dims = {{"M", 5}, {"N", asked}}};
      auto run = [&] {
        auto artifact = compile(source, options, &device);
        EXPECT_TRUE(artifact) << renderDiagnostics(artifact.errors(), nullptr);
        return valuesOf(runPlan(**artifact, device, inputs)->front());
      };
      std::vector<float> own = run();
      for (size_t i = 0; i < schedules->size(); i += 3) {
        auto table = std::make_shared<ScheduleTable>();
        TunedSchedule one = entry("cpu");
        one.region = region.key.text;
        one.sizes = {7, tuned};
        one.numerics = numerics;
        one.best = (*schedules)[i].toAttr();
        table->set(one);
        options.schedules = table;
        options.scheduleReport = std::make_shared<ScheduleReport>();
        std::vector<float> values = run();
        used += options.scheduleReport->at(0).kind == ScheduleOrigin::Tuned;
        if (std::string(numerics) == "exact") {
          EXPECT_EQ(values, own) << Attribute(one.best).str();
          continue;
        }
        for (size_t at = 0; at < values.size(); ++at)
          ASSERT_NEAR(values[at], expected[at], 1e-6) << at << " with " << Attribute(one.best).str();
      }
    }
  EXPECT_GT(used, 40u);
}

} // namespace
} // namespace minic::test
