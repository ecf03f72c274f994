// Schedules of tensor cores as text: what they say, and what is refused.
#include "VerifierTest.h"

#include "minic/IR/Schedule.h"

using namespace minic;

namespace {

Expected<Schedule> parsed(const std::string &text, int rank = 3) {
  auto attribute = parseAttribute(text);
  EXPECT_TRUE(attribute && attribute->asRecord()) << text;
  return Schedule::parse(*attribute->asRecord(), rank);
}

/// That the schedule #matmul<...> of these fields has this fault.
void refuse(const std::string &fields, const std::string &message) {
  auto schedule = parsed("#matmul<" + fields + ">");
  ASSERT_FALSE(schedule) << fields;
  EXPECT_EQ(schedule.errors().size(), 1u);
  EXPECT_EQ(schedule.errors()[0].message, message);
  EXPECT_EQ(schedule.errors()[0].code, ErrorCode::BadSchedule);
}

TEST(Schedule, OfTensorCores) {
  auto schedule = parsed("#matmul<bm = 128, bn = 256, bk = 64, unit = wgmma, stages = 4, raster = 8>", 4);
  ASSERT_TRUE(schedule) << test::text(schedule.errors());
  EXPECT_EQ(schedule->unit, Schedule::Unit::Wgmma);
  EXPECT_EQ(schedule->block, (std::vector<int64_t>{1, 128, 256, 64}));
  EXPECT_EQ(schedule->stages, 4);
  EXPECT_EQ(schedule->raster, 8);
  EXPECT_EQ(schedule->numWarps(), 8); // Two warpgroups.
  EXPECT_EQ(Attribute(schedule->toAttr()).str(), "#matmul<bm = 128, bn = 256, bk = 64, unit = wgmma, stages = 4, raster = 8>");
}

TEST(Schedule, OfTensorCoresWithOneWarpgroup) {
  auto schedule = parsed("#matmul<bm = 64, bn = 64, bk = 64, unit = wgmma, stages = 1, raster = 1>");
  ASSERT_TRUE(schedule) << test::text(schedule.errors());
  EXPECT_EQ(schedule->numWarps(), 4);
}

TEST(Schedule, OfLibraries) {
  RecordAttr cublaslt{"library", {{"name", Attribute::word("cublaslt")}}};
  auto schedule = Schedule::parse(cublaslt, 3);
  ASSERT_TRUE(schedule);
  EXPECT_TRUE(schedule->isLibrary());
  EXPECT_EQ(schedule->toAttr(), cublaslt);
  auto other = Schedule::parse({"library", {{"name", Attribute::word("mkl")}}}, 3);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.errors().front().message, "schedule #library, field 'name': expected `cublaslt`");
  auto kernel = Schedule::parseForKernel(cublaslt, 3);
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.errors().front().message, "schedule #library is for a region, which has no kernel then");
}

TEST(Schedule, RefusesOtherUnits) {
  refuse("bm = 64, bn = 64, bk = 64, unit = tcgen05, stages = 4, raster = 8",
         "schedule #matmul, field 'unit': expected `wgmma` or `mma`");
  refuse("bm = 64, bn = 64, bk = 64, unit = 4, stages = 4, raster = 8",
         "schedule #matmul, field 'unit': expected `wgmma` or `mma`");
}

TEST(Schedule, RefusesBlocksThatWgmmaDoesNotHave) {
  auto with = [](int bm, int bn, int bk) {
    return "bm = " + std::to_string(bm) + ", bn = " + std::to_string(bn) + ", bk = " + std::to_string(bk) +
           ", unit = wgmma, stages = 4, raster = 8";
  };
  for (int bm : {1, 32, 256})
    refuse(with(bm, 64, 64), "schedule #matmul, field 'bm': wgmma has 64 rows in a warpgroup, and there are one or two of those");
  for (int bn : {32, 512})
    refuse(with(64, bn, 64), "schedule #matmul, field 'bn': wgmma has blocks of 64, 128 or 256 columns here");
  for (int bk : {16, 256})
    refuse(with(64, 64, bk), "schedule #matmul, field 'bk': wgmma has blocks of 128 bytes here: 32, 64 or 128 elements");
  refuse(with(96, 64, 64), "schedule #matmul, field 'bm': 96 is not a power of two between 1 and 1048576");
  refuse(with(64, 192, 64), "schedule #matmul, field 'bn': 192 is not a power of two between 1 and 1048576");
}

TEST(Schedule, RefusesStagesAndRasters) {
  const std::string blocks = "bm = 64, bn = 64, bk = 64, unit = wgmma, ";
  refuse(blocks + "raster = 8", "schedule #matmul, field 'stages': expected an integer");
  refuse(blocks + "stages = 4", "schedule #matmul, field 'raster': expected an integer");
  refuse(blocks + "stages = 0, raster = 8", "schedule #matmul, field 'stages': 0 is not from 1 to 64");
  refuse(blocks + "stages = 4, raster = -8", "schedule #matmul, field 'raster': -8 is not a power of two between 1 and 1048576");
  refuse(blocks + "stages = 128, raster = 8", "schedule #matmul, field 'stages': 128 is not from 1 to 64");
  refuse(blocks + "stages = [4], raster = 8", "schedule #matmul, field 'stages': expected an integer");
}

TEST(Schedule, RefusesFieldsOfTheOtherUnit) {
  refuse("bm = 64, bn = 64, bk = 64, unit = wgmma, stages = 4, raster = 8, warps = [4, 1]",
         "schedule #matmul, field 'warps': unknown field");
  refuse("bm = 64, bn = 64, bk = 16, warps = [2, 2], lanes = [4, 8], vec = 4, stages = 4",
         "schedule #matmul, field 'raster': expected an integer");
  refuse("bm = 64, bn = 64, bk = 16, warps = [2, 2], lanes = [4, 8], vec = 4, raster = 8",
         "schedule #matmul, field 'raster': unknown field");
}

TEST(Schedule, OfTheTensorCoresOfAWarp) {
  const std::string text = "#matmul<bm = 128, bn = 256, bk = 32, unit = mma, warps = [2, 4], stages = 3, raster = 8>";
  auto schedule = parsed(text, 4);
  ASSERT_TRUE(schedule) << test::text(schedule.errors());
  EXPECT_EQ(schedule->unit, Schedule::Unit::Mma);
  EXPECT_EQ(schedule->warps, (std::vector<int64_t>{1, 2, 4, 1}));
  EXPECT_EQ(schedule->numThreads(), 256);
  EXPECT_EQ(schedule->stages, 3);
  EXPECT_EQ(Attribute(schedule->toAttr()).str(), text);
}

TEST(Schedule, RefusesBlocksThatMmaDoesNotHave) {
  auto with = [](int bm, int bn, int bk, const std::string &warps, int stages = 4) {
    return "bm = " + std::to_string(bm) + ", bn = " + std::to_string(bn) + ", bk = " + std::to_string(bk) +
           ", unit = mma, warps = " + warps + ", stages = " + std::to_string(stages) + ", raster = 8";
  };
  for (int bm : {16, 512})
    refuse(with(bm, 64, 32, "[2, 2]"),
           "schedule #matmul, field 'bm': mma has at least 16 rows for each of 2 and 2 warps and at most 256 here");
  for (int bn : {8, 16, 512})
    refuse(with(64, bn, 32, "[1, 4]"),
           "schedule #matmul, field 'bn': mma has at least 8 columns for each of 1 and 4 warps, and from 16 to 256 here");
  for (int bk : {8, 256})
    refuse(with(64, 64, bk, "[2, 2]"), "schedule #matmul, field 'bk': mma has blocks of 16 to 128 here");
  refuse(with(64, 64, 48, "[2, 2]"), "schedule #matmul, field 'bk': 48 is not a power of two between 1 and 1048576");
  refuse(with(128, 128, 32, "[1, 2]"), "schedule #matmul, field 'warps': a thread would hold 256 accumulators, more than 128");
  for (const char *warps : {"[16, 1]", "[1, 16]", "[4, 8]"})
    refuse(with(256, 256, 32, warps),
           "schedule #matmul, field 'warps': mma has at most 8 warps along an axis and 16 together here");
  refuse(with(128, 128, 32, "[2]"), "schedule #matmul, field 'warps': expected a list of 2 integers");
  refuse(with(64, 64, 32, "[2, 2]", 0), "schedule #matmul, field 'stages': 0 is not from 1 to 64");
  refuse(with(64, 64, 32, "[2, 2]", 65), "schedule #matmul, field 'stages': 65 is not from 1 to 64");
}

TEST(Schedule, RefusesUnknownFields) {
  refuse("bm = 64, bn = 64, bk = 64, unit = wgmma, stages = 4, raster = 8, split = 2",
         "schedule #matmul, field 'split': unknown field");
}

} // namespace
