#include "minic/Artifact/RunPlan.h"

#include <gtest/gtest.h>

using namespace minic;

namespace {

const DimExpr n = DimExpr::name("N"), k = DimExpr::name("K"), m = DimExpr::name("M");

/// linear: x is NxK, w is KxM, b is M.
Plan linear() {
  Plan plan;
  plan.name = "linear";
  plan.inputs = {{"x", DType::F32, {n, k}}, {"w", DType::F32, {k, m}}, {"b", DType::F32, {m}}};
  return plan;
}

std::vector<HostTensor> tensors(std::vector<std::vector<int64_t>> shapes, DType dtype = DType::F32) {
  std::vector<HostTensor> list;
  for (auto &shape : shapes)
    list.emplace_back(dtype, std::move(shape));
  return list;
}

Expected<DimBindings> bindShapes(const Plan &plan, const std::vector<HostTensor> &inputs, DimBindings given = {}) {
  return bindDims(plan, viewsOf(inputs), {}, std::move(given));
}

Diagnostics errorsOf(const Plan &plan, const std::vector<HostTensor> &inputs, DimBindings given = {}) {
  auto dims = bindShapes(plan, inputs, std::move(given));
  EXPECT_FALSE(dims);
  return dims ? Diagnostics{{.code = ErrorCode::BadFlag, .message = "no error"}} : dims.takeErrors();
}

TEST(BindDims, ByShapes) {
  auto dims = bindShapes(linear(), tensors({{2, 3}, {3, 4}, {4}}));
  ASSERT_TRUE(dims);
  EXPECT_EQ(*dims, (DimBindings{{"K", 3}, {"M", 4}, {"N", 2}}));
  auto empty = bindShapes(linear(), tensors({{0, 3}, {3, 0}, {0}}));
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->at("M"), 0);
}

TEST(BindDims, MismatchSaysWhoBoundTheName) {
  Diagnostics errors = errorsOf(linear(), tensors({{2, 3}, {5, 4}, {4}}));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].message, "input 'w' has shape 5x4xf32, expected 3x4xf32");
  ASSERT_EQ(errors[0].notes.size(), 1u);
  EXPECT_EQ(errors[0].notes[0].message, "K = 3 by input 'x'");
  Diagnostics given = errorsOf(linear(), tensors({{2, 3}, {3, 4}, {4}}), {{"N", 7}});
  EXPECT_EQ(given[0].message, "input 'x' has shape 2x3xf32, expected 7x3xf32");
  EXPECT_EQ(given[0].notes[0].message, "N = 7 by a fixed value");
}

TEST(BindDims, AllWrongInputsAreNamed) {
  Diagnostics errors = errorsOf(linear(), tensors({{2, 3}, {5, 4}, {6}}));
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[1].message, "input 'b' has shape 6xf32, expected 4xf32");
  Diagnostics rank = errorsOf(linear(), tensors({{2}, {5, 4}, {4, 1}}));
  ASSERT_EQ(rank.size(), 2u);
  EXPECT_EQ(rank[0].message, "input 'x' has shape 2xf32, expected NxKxf32");
  EXPECT_EQ(rank[1].message, "input 'b' has shape 4x1xf32, expected 4xf32");
  Diagnostics dtype = errorsOf(linear(), tensors({{2, 3}, {3, 4}, {4}}, DType::F64));
  EXPECT_EQ(dtype[0].message, "input 'x' has shape 2x3xf64, expected NxKxf32");
}

TEST(BindDims, Count) {
  Diagnostics few = errorsOf(linear(), tensors({{2, 3}}));
  EXPECT_EQ(few[0].code, ErrorCode::MissingInput);
  EXPECT_EQ(few[0].message, "'linear' takes 3 inputs (x, w, b), given 1");
  EXPECT_EQ(errorsOf(linear(), tensors({{2, 3}, {3, 4}, {4}, {4}}))[0].code, ErrorCode::BadInput);
}

TEST(BindDims, Constants) {
  Plan plan;
  plan.name = "g";
  plan.inputs = {{"x", DType::F32, {2, 2}}};
  EXPECT_EQ(errorsOf(plan, tensors({{2, 3}}))[0].message, "input 'x' has shape 2x3xf32, expected 2x2xf32");
  EXPECT_TRUE(bindShapes(plan, tensors({{2, 2}})));
}

TEST(BindDims, Products) {
  Plan plan;
  plan.name = "g";
  plan.inputs = {{"x", DType::F32, {DimExpr(4) * n}}, {"y", DType::F32, {DimExpr::ceilDiv(n, 2) * m}}, {"z", DType::F32, {m}}};
  auto dims = bindShapes(plan, tensors({{20}, {9}, {3}}));
  ASSERT_TRUE(dims);
  EXPECT_EQ(dims->at("N"), 5);
  Diagnostics odd = errorsOf(plan, tensors({{21}, {9}, {3}}));
  EXPECT_EQ(odd[0].message, "input 'x' has shape 21xf32, expected 4*Nxf32");
  EXPECT_EQ(odd[0].notes[0].message, "axis 0 must be a multiple of 4");
  EXPECT_EQ(errorsOf(plan, tensors({{20}, {10}, {3}}))[0].message, "input 'y' has shape 10xf32, expected 9xf32");
}

TEST(BindDims, EveryNameNeedsAValue) {
  Plan plan = linear();
  plan.buffers = {{{"t", DType::F32, {DimExpr::name("P")}}}};
  Diagnostics errors = errorsOf(plan, tensors({{2, 3}, {3, 4}, {4}}));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].code, ErrorCode::UnboundDim);
  EXPECT_EQ(errors[0].message, "dimension 'P' of 'linear' has no value: no input's shape gives one");
  EXPECT_EQ(errors[0].fix, "give it with --dim P=VALUE");
  EXPECT_TRUE(bindShapes(plan, tensors({{2, 3}, {3, 4}, {4}}), {{"P", 9}}));
  EXPECT_EQ(errorsOf(plan, tensors({{2, 3}, {3, 4}, {4}}), {{"P", -9}})[0].code, ErrorCode::BadDim);
}

} // namespace
