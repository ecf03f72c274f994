// Stopping after any pass, and going on from the text, gives the PTX of going straight through.
#include "CompilerTest.h"

#include "minic/CodeGen/CodeGen.h"
#include "minic/Transforms/PassPipeline.h"

#include <fstream>
#include <map>
#include <sstream>

namespace minic::test {
namespace {

std::string example(const std::string &name) {
  std::ifstream file(std::string(MINIC_EXAMPLES "/") + name);
  EXPECT_TRUE(file) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

constexpr const char *product =
    R"(graph @product(%a: tensor<4096x4096xbf16>, %b: tensor<4096x4096xbf16>) -> (c: tensor<4096x4096xbf16>) {
  %c = matmul %a, %b : tensor<4096x4096xbf16>
  return %c
})";

/// PTX of what passes made. LLVM takes most of the time, so equal texts are compiled once.
class PtxOf {
public:
  const std::string &operator()(Module &module) {
    std::string text;
    for (Function *function : module.functions())
      text += printFunction(*function, {.locations = false});
    auto [known, isNew] = ptxOf.try_emplace(text);
    if (isNew) {
      auto ptx = emitPtx(module, **findTarget(module.target));
      EXPECT_TRUE(ptx) << errorText(ptx.errors());
      known->second = ptx ? *ptx : "";
    }
    return known->second;
  }

private:
  std::map<std::string, std::string> ptxOf;
};

void expectSame(const std::string &graph, CompileOptions options) {
  PtxOf ptxOf;
  Loaded whole = load(graph, options);
  auto pipeline = pipelineFor(*whole.module, Stage::Plan, options);
  ASSERT_TRUE(pipeline) << errorText(pipeline.errors());
  ASSERT_TRUE(lowerTo(*whole.module, Stage::Plan, options));
  const std::string straight = ptxOf(*whole.module);
  ASSERT_NE(straight, "");
  for (size_t i = 0; i < pipeline->all.size(); ++i) {
    CompileOptions stop = options;
    stop.stopAfter = nameOfStep(pipeline->all, i);
    std::string text = lowerText(graph, Stage::Plan, stop);
    ASSERT_NE(text.find("after = \"" + stop.stopAfter + "\""), std::string::npos) << text.substr(0, 200);
    CompileOptions goOn = options;
    goOn.dims.clear(); // The text has them.
    Loaded rest = load(text, goOn);
    auto done = lowerTo(*rest.module, Stage::Plan, goOn);
    ASSERT_TRUE(done) << "after " << stop.stopAfter << ": " << errorText(done.errors());
    EXPECT_EQ(ptxOf(*rest.module), straight) << "after " << stop.stopAfter;
  }
}

TEST(Resume, Softmax) {
  expectSame(example("softmax.ir"), {});
  expectSame(example("softmax.ir"), {.dims = {{"M", 64}, {"N", 781}}});
  expectSame(example("softmax.ir"), {.dims = {{"M", 64}, {"N", 781}}, .eager = true});
}
TEST(Resume, LinearRelu) {
  expectSame(example("linear_relu.ir"), {});
  expectSame(example("linear_relu.ir"), {.numerics = "exact", .dims = {{"N", 33}, {"K", 16}, {"M", 65}}});
}
TEST(Resume, LayerNorm) {
  expectSame(example("layernorm.ir"), {});
  expectSame(example("layernorm.ir"), {.dims = {{"M", 8}, {"N", 1024}}});
}
TEST(Resume, ProductOnTensorCores) { expectSame(product, {}); }
TEST(Resume, Mlp) {
  expectSame(example("mlp.ir"), {.dims = {{"N", 64}, {"K", 512}, {"H", 256}, {"M", 32}}});
  expectSame(example("mlp.ir"), {.numerics = "fast", .dims = {{"N", 512}, {"K", 512}, {"H", 512}, {"M", 512}}});
}
TEST(Resume, PlansForAnyStrides) { expectSame(example("softmax.ir"), {.anyStrides = true}); }
TEST(Resume, AListOfItsOwn) {
  std::string usual = pipelineText(buildPipeline(Stage::Plan));
  auto at = usual.find("fuse,");
  expectSame(example("softmax.ir"), {.pipeline = usual.substr(0, at) + "fuse{max=2}" + usual.substr(at + 4)});
}

//===- Lists of passes -===//

std::string rewritten(std::string_view text) {
  auto steps = parsePipeline(text, "--passes");
  return steps ? pipelineText(*steps) : steps.errors().front().message + " | " + steps.errors().front().fix;
}

TEST(PassPipeline, TextGivesTheSameText) {
  for (const char *text : {"fuse", "cse,dce", "fuse{max=8}", "cse{level=tile}", "choose-schedule{bm=64,unit=mma},tile"})
    EXPECT_EQ(rewritten(text), text);
  EXPECT_EQ(rewritten(" cse , fuse{ max = 8 } "), "cse,fuse{max=8}");
  EXPECT_EQ(rewritten("fuse{max=64}"), "fuse") << "what an option is unless given is left out";
  std::string usual = pipelineText(buildPipeline(Stage::Plan, true));
  EXPECT_EQ(rewritten(usual), usual);
}

TEST(PassPipeline, ErrorsSayWhatToWrite) {
  EXPECT_EQ(rewritten("cse,fuze"), "unknown pass 'fuze' in --passes | did you mean fuse?");
  EXPECT_EQ(rewritten("fuse{mex=8}"), "--passes: pass fuse has no option 'mex' | did you mean max? It has max");
  EXPECT_EQ(rewritten("tile{max=8}"), "--passes: pass tile takes no options | write tile");
  EXPECT_EQ(rewritten("fuse{max=many}"),
            "--passes: option max of fuse is a number from 1 to 2147483647, not 'many' | write fuse{max=...}");
  EXPECT_EQ(rewritten("fuse{max=0}"),
            "--passes: option max of fuse is a number from 1 to 2147483647, not '0' | write fuse{max=...}");
  EXPECT_EQ(rewritten("choose-schedule{unit=tensor}"),
            "--passes: option unit of choose-schedule is one of fma|mma|wgmma, not 'tensor' | write choose-schedule{unit=...}");
  EXPECT_EQ(rewritten("cse{level=top}"),
            "--passes: option level of cse is one of graph|fused|tile|masked|machine|plan, not 'top' | write "
            "cse{level=...}");
  EXPECT_EQ(rewritten("fuse{max=8,max=9}"), "--passes: option 'max' of fuse is given twice | drop one of them");
  EXPECT_EQ(rewritten("fuse{max=8"), "--passes: the options of fuse have no end | add }");
  EXPECT_EQ(rewritten("fuse{max=8}cse"), "--passes: expected a comma behind the options of fuse, not 'cse' | write fuse{...},cse");
  for (const char *text : {"cse,", ",cse", "cse,,dce"})
    EXPECT_EQ(rewritten(text), "--passes: a comma with no pass before or behind it | drop the comma, or name a pass") << text;
  EXPECT_EQ(rewritten(" "), "--passes: the list is empty | name at least one pass, such as canonicalize");
}

TEST(PassPipeline, StepsByName) {
  auto steps = *parsePipeline("cse,dce,cse,fuse", "");
  EXPECT_EQ(*findStep(steps, "cse", "--stop-after"), 2u);
  EXPECT_EQ(*findStep(steps, "cse#1", "--stop-after"), 0u);
  EXPECT_EQ(nameOfStep(steps, 0), "cse#1");
  EXPECT_EQ(nameOfStep(steps, 3), "fuse");
  for (const char *name : {"cse#3", "cse#0", "cse#", "cse#x", "tile", ""})
    EXPECT_FALSE(findStep(steps, name, "--stop-after")) << name;
}

//===- Options -===//

size_t countOf(const std::string &text, const std::string &word) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size())
    ++count;
  return count;
}

TEST(PassOptions, FuseTakesNoMoreOpsThanItsMax) {
  std::string text = example("softmax.ir");
  EXPECT_EQ(countOf(lowerText(text, Stage::Fused, {.pipeline = "fuse"}), "= fusion"), 1u);
  EXPECT_EQ(countOf(lowerText(text, Stage::Fused, {.pipeline = "fuse{max=1}"}), "= fusion"), 5u);
}

TEST(PassOptions, ChooseScheduleForcesFields) {
  std::string list = "canonicalize{level=graph},fuse,choose-schedule";
  std::string forced = lowerText(product, Stage::Fused, {.pipeline = list + "{bm=64,bn=128,bk=32,unit=mma}"});
  for (const char *field : {"bm = 64", "bn = 128", "bk = 32", "unit = mma"})
    EXPECT_NE(forced.find(field), std::string::npos) << field << forced;
  EXPECT_NE(lowerText(product, Stage::Fused, {.pipeline = list + "{stages=3}"}).find("stages = 3"), std::string::npos);
  for (const char *options : {"{bm=96}", "{bm=4096}", "{cluster=2}"}) {
    Loaded loaded = load(product, {.pipeline = list + options});
    auto text = emitStage(*loaded.module, Stage::Fused, {.pipeline = list + options});
    ASSERT_FALSE(text) << options;
    EXPECT_EQ(text.errors().front().code, ErrorCode::NoSchedule) << options;
  }
}

TEST(PassOptions, AForcedScheduleGivesTheSameResults) {
  std::string usual = pipelineText(buildPipeline(Stage::Plan));
  auto at = usual.find("choose-schedule");
  std::string list = usual.substr(0, at) + "choose-schedule{bm=16,bn=32}" + usual.substr(at + 15);
  std::string text = "graph @g(%x: tensor<70x33xf32>, %w: tensor<33x50xf32>) -> (y: tensor<70x50xf32>) {\n"
                     "  %y = matmul %x, %w : tensor<70x50xf32>\n  return %y\n}\n";
  RunResult forced = run(text, Stage::Plan, {.pipeline = list}, {});
  ASSERT_TRUE(forced.results) << errorText(forced.results.errors());
  for (int64_t row : {0, 17, 69})
    for (int64_t column : {0, 31, 49}) {
      double sum = 0;
      for (int64_t k = 0; k < 33; ++k)
        sum += forced.inputs[0].get(row * 33 + k) * forced.inputs[1].get(k * 50 + column);
      EXPECT_NEAR((*forced.results)[0].get(row * 50 + column), sum, 1e-5);
    }
}

} // namespace
} // namespace minic::test
