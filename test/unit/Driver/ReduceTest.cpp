#include "minic/Driver/Reduce.h"

#include "minic/IR/Parser.h"

#include <gtest/gtest.h>

namespace minic::test {
namespace {

std::string reduced(const std::string &text, const IsInteresting &isInteresting) {
  auto result = reduceModule(SourceBuffer("test.ir", text), isInteresting);
  return result ? *result : renderDiagnostics(result.errors(), nullptr);
}

auto holds(std::string word) {
  return [word = std::move(word)](const std::string &text) { return text.find(word) != std::string::npos; };
}

constexpr const char *graph =
    R"(graph @f(%x: tensor<12x35xf32>, %w: tensor<35x8xf32>) -> (y: tensor<12x8xf32>, z: tensor<12x35xf32>) {
  %e = exp %x : tensor<12x35xf32>
  %t = tanh %e : tensor<12x35xf32>
  %y = matmul %t, %w : tensor<12x8xf32>
  %c = constant 3.5 : tensor<12x35xf32>
  %z = add %t, %c : tensor<12x35xf32>
  return %y, %z
}
graph @other(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {
  %y = neg %x : tensor<4xf32>
  return %y
}
)";

TEST(Reduce, LeavesWhatIsLookedFor) {
  EXPECT_EQ(reduced(graph, holds("tanh")), "minic 1\nmodule numerics = default\n\n"
                                           "graph @f(%e: tensor<1x1xf32>) -> (y: tensor<1x1xf32>) {\n"
                                           "  %t = tanh %e : tensor<1x1xf32>\n  return %t\n}\n");
}

TEST(Reduce, SizesAreAsSmallAsTheyCanBe) {
  auto text = reduced(graph, [](const std::string &text) {
    Context context;
    auto module = parseModule(context, SourceBuffer("candidate", text));
    bool found = false;
    for (Function *function : (*module)->functions())
      walk(function->body(),
           [&](Operation &op) { found |= op.is(OpKind::Matmul) && op.operand(0)->type().shape()[1].constant().value_or(0) > 19; });
    return found;
  });
  EXPECT_NE(text.find("matmul"), std::string::npos);
  EXPECT_NE(text.find("tensor<1x31xf32>"), std::string::npos) << "the sizes that are tried are powers of two and their neighbours\n"
                                                              << text;
  EXPECT_EQ(text.find("tanh"), std::string::npos) << text;
}

TEST(Reduce, ConstantsBecomeSimple) {
  std::string text = reduced(graph, [](const std::string &text) {
    return text.find("constant") != std::string::npos && text.find("add") != std::string::npos;
  });
  EXPECT_NE(text.find("constant 0.0"), std::string::npos) << text;
}

TEST(Reduce, OtherLevelsLoseOps) {
  std::string text = reduced(R"(kernel @k(%x: buffer<32xf32>, %y: buffer<32xf32>) at tile {
  %zero = constant 0 : index
  %a = load %x, %zero : tile<32xf32>
  %b = exp %a : tile<32xf32>
  %c = tanh %b : tile<32xf32>
  %d = add %c, %b : tile<32xf32>
  store %d, %y, %zero
  return
}
kernel @other(%y: buffer<32xf32>) at tile {
  return
}
)",
                             holds("tanh"));
  EXPECT_NE(text.find("tanh"), std::string::npos) << text;
  for (const char *gone : {"exp", "add", "@other"})
    EXPECT_EQ(text.find(gone), std::string::npos) << gone << text;
}

TEST(Reduce, IsTheSameEachTimeAndStopsWhenAsked) {
  EXPECT_EQ(reduced(graph, holds("matmul")), reduced(graph, holds("matmul")));
  auto stopped = reduceModule(SourceBuffer("test.ir", graph), holds("tanh"), {.isStopped = [] { return true; }});
  ASSERT_TRUE(stopped);
  EXPECT_NE(stopped->find("@other"), std::string::npos);
}

TEST(Reduce, EveryCandidateVerifies) {
  reduced(graph, [](const std::string &text) {
    Context context;
    auto module = parseModule(context, SourceBuffer("candidate", text));
    EXPECT_TRUE(module) << text;
    return module && text.find("matmul") != std::string::npos;
  });
}

TEST(Reduce, WhatDoesNotHoldAtFirstIsAnError) {
  auto result = reduceModule(SourceBuffer("test.ir", graph), holds("sigmoid"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.errors().front().code, ErrorCode::BadArgument);
}

} // namespace
} // namespace minic::test
