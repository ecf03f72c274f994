// Every proof and check is shown a fault that it must catch: the right text is lowered, one thing in it is changed, and the
// verifier or the interpreter has to say what is wrong.
#include "CompilerTest.h"

using namespace minic;
using namespace minic::test;

namespace {

const char *softmax = R"(
graph @softmax(%x: tensor<3x781xf32>) -> (y: tensor<3x781xf32>) {
  %m = reduce max %x, axes = [1] : tensor<3xf32>
  %mb = broadcast %m, dims = [0] : tensor<3x781xf32>
  %z = sub %x, %mb : tensor<3x781xf32>
  %e = exp %z : tensor<3x781xf32>
  %s = reduce sum %e, axes = [1] : tensor<3xf32>
  %sb = broadcast %s, dims = [0] : tensor<3x781xf32>
  %y = div %e, %sb : tensor<3x781xf32>
  return %y
})";

const char *product = R"(
graph @product(%x: tensor<65x33xf32>, %w: tensor<33x70xf32>) -> (y: tensor<65x70xf32>) {
  %y = matmul %x, %w : tensor<65x70xf32>
  return %y
})";

const char *longRow = R"(
graph @total(%x: tensor<2x5000xf32>) -> (y: tensor<2xf32>) {
  %y = reduce sum %x, axes = [1] : tensor<2xf32>
  return %y
})";

/// Runs text that stands below the graph level as it is.
Diagnostics runErrors(const std::string &text) {
  RunResult result = run(text, Stage::Graph, {}, {});
  return result.results ? Diagnostics() : result.results.takeErrors();
}

} // namespace

TEST(PlantedFault, TheUnchangedTextsRun) {
  for (const char *text : {softmax, product, longRow})
    for (Stage stage : {Stage::Tile, Stage::Masked, Stage::Machine}) {
      RunResult result = run(lowerText(text, stage), Stage::Graph, {}, {});
      ASSERT_TRUE(result.results) << errorText(result.results.errors());
      EXPECT_LT(errorOf(text, result), 1e-5);
    }
}

TEST(PlantedFault, ADroppedMaskIsRefused) {
  std::string text = replaced(lowerText(softmax, Stage::Masked), "mask = [1], fill", "mask = [0], fill");
  EXPECT_TRUE(says(refused(text), ErrorCode::UnprovedAccess));
}

TEST(PlantedFault, ADroppedMaskIsOutOfBoundsInTheInterpreter) {
  // At the machine level no proof is asked for; the access itself is.
  std::string text = replaced(lowerText(softmax, Stage::Machine), "mask = [1], fill = -inf", "mask = [0], fill = -inf");
  EXPECT_TRUE(says(runErrors(text), ErrorCode::OutOfBounds));
}

TEST(PlantedFault, ADroppedStoreMaskIsOutOfBounds) {
  std::string text = replaced(lowerText(softmax, Stage::Machine), "mask = [1], vec", "mask = [0], vec");
  EXPECT_TRUE(says(runErrors(text), ErrorCode::OutOfBounds));
}

TEST(PlantedFault, AWrongIdentityIsRefused) {
  std::string text = replaced(lowerText(softmax, Stage::Masked), "fill = -inf", "fill = 0.0");
  EXPECT_TRUE(says(refused(text), ErrorCode::UnprovedPadding));
}

TEST(PlantedFault, AMissingFillIsAnUndefinedRead) {
  std::string text = replaced(lowerText(softmax, Stage::Machine), ", fill = -inf", "");
  EXPECT_TRUE(says(runErrors(text), ErrorCode::UndefinedRead));
}

TEST(PlantedFault, AShiftedLayoutIsRefused) {
  std::string text = lowerText(longRow, Stage::Machine);
  EXPECT_TRUE(says(refused(replaced(text, "lane = [1:32@", "lane = [1:32@2")), ErrorCode::BadLayout));
}

TEST(PlantedFault, AMissingBarrierIsARace) {
  std::string sum = lowerText(longRow, Stage::Machine);
  EXPECT_TRUE(says(runErrors(replaced(sum, "barrier", "// barrier")), ErrorCode::SharedRace));
  // Both barriers of a matmul: before the operands are written again, and before they are read.
  std::string matmul = lowerText(product, Stage::Machine);
  for (int which : {0, 1})
    EXPECT_TRUE(says(runErrors(replaced(matmul, "barrier", "// barrier", which)), ErrorCode::SharedRace)) << which;
}

TEST(PlantedFault, AProgramThatStoresAnothersRowsIsALostStore) {
  std::string machine = lowerText(product, Stage::Machine);
  std::string doubled = replaced(machine, "mul %p0, %0", "mul %p1, %0");
  EXPECT_TRUE(says(runErrors(doubled), ErrorCode::LostStore));
}

TEST(PlantedFault, AnOutputNobodyStoresIsReported) {
  std::string text = lowerText(longRow, Stage::Tile);
  size_t store = text.find("  store"), end = text.find('\n', store);
  text.erase(store, end - store);
  EXPECT_TRUE(says(runErrors(text), ErrorCode::LostStore));
}

TEST(PlantedFault, ABufferReusedTooEarlyGivesAnotherResult) {
  const char *chain = R"(
graph @chain(%x: tensor<16x16xf32>) -> (y: tensor<16x16xf32>) {
  %a = matmul %x, %x : tensor<16x16xf32>
  %b = matmul %a, %x : tensor<16x16xf32>
  %c = matmul %b, %a : tensor<16x16xf32>
  %y = matmul %c, %a : tensor<16x16xf32>
  return %y
})";
  std::string plan = lowerText(chain, Stage::Plan);
  RunResult right = run(plan, Stage::Graph, {}, {});
  ASSERT_TRUE(right.results) << errorText(right.results.errors());
  EXPECT_LT(errorOf(chain, right), 1e-4); // Four products of f32, one after the other.
  // %b takes the memory of %a, which the next two steps still read.
  std::string early = replaced(plan, "%b = alloc", "%b = view %a");
  RunResult wrong = run(early, Stage::Graph, {}, {});
  EXPECT_TRUE(!wrong.results || errorOf(chain, wrong) > 1e-3);
}
