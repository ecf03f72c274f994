#include "minic/Support/DimExpr.h"

#include <gtest/gtest.h>

using namespace minic;

namespace {

DimExpr parsed(std::string_view text) {
  auto dim = parseDimExpr(text);
  EXPECT_TRUE(dim) << text;
  return dim.value_or(DimExpr(-1));
}

const DimExpr m = DimExpr::name("M"), n = DimExpr::name("N");
constexpr int64_t big = int64_t(1) << 40;

TEST(DimExpr, NormalForm) {
  EXPECT_EQ(n * m, m * n);
  EXPECT_EQ((n * m).str(), "M*N");
  EXPECT_EQ((DimExpr(2) * n * DimExpr(3) * m).str(), "6*M*N");
  EXPECT_EQ((n * n).str(), "N*N");
  EXPECT_EQ((n * DimExpr(0)).constant(), 0);
  EXPECT_TRUE((n * DimExpr(0)).isConstant(0));
  EXPECT_NE(n, m);
  EXPECT_NE(n, DimExpr(2) * n);
  EXPECT_EQ((n * DimExpr::ceilDiv(m, 128)).str(), "N*ceildiv(M, 128)");
  EXPECT_EQ(n.constant(), std::nullopt);
}

TEST(DimExpr, CeilDivFolds) {
  EXPECT_EQ(DimExpr::ceilDiv(7, 2), DimExpr(4));
  EXPECT_EQ(DimExpr::ceilDiv(8, 2), DimExpr(4));
  EXPECT_EQ(DimExpr::ceilDiv(INT64_MAX - 1, 2), DimExpr(INT64_MAX / 2));
  EXPECT_EQ(DimExpr::ceilDiv(0, n), DimExpr(0));
  EXPECT_EQ(DimExpr::ceilDiv(0, 0), DimExpr(0));
  EXPECT_EQ(DimExpr::ceilDiv(n, 1), n);
  EXPECT_EQ(DimExpr::ceilDiv(DimExpr(6) * n * m, DimExpr(2) * m), DimExpr(3) * n);
  EXPECT_EQ(DimExpr::ceilDiv(DimExpr(6) * n, 4).str(), "ceildiv(6*N, 4)");
  EXPECT_EQ(DimExpr::ceilDiv(n, m).str(), "ceildiv(N, M)");
}

TEST(DimExpr, Evaluates) {
  DimBindings dims = {{"M", 5}, {"N", 300}};
  EXPECT_EQ((DimExpr(4) * n * m).evaluate(dims), 6000);
  EXPECT_EQ(DimExpr::ceilDiv(n, 128).evaluate(dims), 3);
  EXPECT_EQ(DimExpr::ceilDiv(n, m).evaluate(dims), 60);
  EXPECT_EQ(DimExpr::name("K").evaluate(dims), std::nullopt);
  EXPECT_EQ((DimExpr::name("K") * n).evaluate({{"N", 0}}), std::nullopt);
  EXPECT_EQ(n.evaluate({{"N", -1}}), std::nullopt);
  EXPECT_EQ(DimExpr::ceilDiv(n, m).evaluate({{"M", 0}, {"N", 1}}), std::nullopt);
  EXPECT_EQ(DimExpr::ceilDiv(n, m).evaluate({{"M", 0}, {"N", 0}}), 0);
}

TEST(DimExpr, OverflowHasNoValue) {
  EXPECT_EQ((n * m).evaluate({{"M", big}, {"N", big}}), std::nullopt);
  EXPECT_EQ((n * m).evaluate({{"M", 3037000500}, {"N", 3037000500}}), std::nullopt);
  EXPECT_EQ((n * m).evaluate({{"M", 3037000499}, {"N", 3037000499}}), 9223372030926249001);
  EXPECT_EQ((DimExpr(big) * DimExpr(big)).evaluate({}), std::nullopt);
  EXPECT_EQ((DimExpr(big) * DimExpr(big) * DimExpr(2) * n).evaluate({{"N", 1}}), std::nullopt);
  EXPECT_EQ((n * m).bind({{"M", big}, {"N", big}}).evaluate({}), std::nullopt);
  EXPECT_EQ(DimExpr::ceilDiv(n * m, 128).bind({{"M", big}, {"N", big}}).evaluate({}), std::nullopt);
  EXPECT_EQ(DimExpr::ceilDiv(n * m, 128).evaluate({{"M", big}, {"N", big}}), std::nullopt);
  // Zero is zero in any order.
  EXPECT_EQ((n * m * DimExpr::name("Z")).evaluate({{"M", big}, {"N", big}, {"Z", 0}}), 0);
  EXPECT_EQ((n * m * DimExpr::name("A")).evaluate({{"M", big}, {"N", big}, {"A", 0}}), 0);
}

TEST(DimExpr, Binds) {
  DimExpr dim = DimExpr::ceilDiv(DimExpr(3) * n, 128) * m;
  EXPECT_EQ(dim.bind({{"N", 100}}), DimExpr(3) * m);
  EXPECT_EQ(dim.bind({{"M", 2}}).str(), "2*ceildiv(3*N, 128)");
  EXPECT_EQ(dim.bind({{"N", 0}}), DimExpr(0));
  std::vector<std::string> names;
  dim.collectNames(names);
  EXPECT_EQ(names, (std::vector<std::string>{"M", "N"}));
}

TEST(DimExpr, PrintsAndParsesBack) {
  for (const char *text : {"0", "4", "N", "4*N", "M*N", "ceildiv(N, 128)", "M*ceildiv(N, 128)", "2*N*ceildiv(ceildiv(3*M, 4), K)",
                           "Batch_2*Rows", "9223372036854775806"})
    EXPECT_EQ(parsed(text).str(), text);
  EXPECT_EQ(parsed(" N * 4 ").str(), "4*N");
  EXPECT_EQ(parsed("ceildiv( 7 ,2)").str(), "4");
}

TEST(DimExpr, RefusesBadText) {
  for (const char *text : {"",
                           " ",
                           "n",
                           "Nx",
                           "-1",
                           "N*",
                           "*N",
                           "N N",
                           "4N",
                           "N+",
                           "N + -",
                           "(N",
                           "1 - 2",
                           "ceildiv(N)",
                           "ceildiv(N, 2",
                           "ceildiv(N, 0)",
                           "Ä",
                           "ceildiv N, 2",
                           "0x10",
                           "1.5",
                           "99999999999999999999",
                           "9223372036854775807",
                           "4611686018427387904*4*N"})
    EXPECT_FALSE(parseDimExpr(text)) << text;
  std::string deep, longText = "N";
  for (int i = 0; i < 100000; ++i)
    deep += "ceildiv(", longText += "*N";
  EXPECT_FALSE(parseDimExpr(deep));
  EXPECT_FALSE(parseDimExpr(longText));
  EXPECT_FALSE(parseDimExpr(std::string_view("N\0", 2)));
}

TEST(DimExpr, Names) {
  for (const char *text : {"N", "Rows", "K_2", "NX"})
    EXPECT_TRUE(isDimName(text)) << text;
  for (const char *text : {"", "n", "_N", "2N", "Max", "N-1", "N\xff"})
    EXPECT_FALSE(isDimName(text)) << text;
}

TEST(DimExpr, MultiplesAndOrder) {
  EXPECT_TRUE((DimExpr(8) * n).isMultipleOf(4));
  EXPECT_FALSE((DimExpr(6) * n).isMultipleOf(4));
  EXPECT_TRUE(DimExpr(0).isMultipleOf(4));
  EXPECT_TRUE(m < n);
  EXPECT_TRUE(n < DimExpr::ceilDiv(m, 2));
}

} // namespace
