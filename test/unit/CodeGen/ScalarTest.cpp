// Every element-wise op on every element type that it takes, on every target.
#include "CodeGenTest.h"

using namespace minic;
using namespace minic::test;

namespace {

constexpr std::string_view targets[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"};
constexpr const char *header = "#v = layout<reg = [], lane = [0:32@1], warp = []>\n";

std::string tile(std::string_view type) { return "tile<32x" + std::string(type) + ", #v>"; }
std::string buffer(std::string_view type) { return "buffer<32x" + std::string(type) + ">"; }

/// A kernel that applies `op` to elements of `types`. i64 is not in memory: it comes from and goes to i32.
std::string kernel(const std::string &name, const std::string &op, const std::vector<std::string> &types,
                   const std::string &result) {
  auto stored = [](const std::string &type) { return type == "i64" ? std::string("i32") : type; };
  std::string text = "kernel @" + name + "(", body, operands;
  for (size_t i = 0; i < types.size(); ++i) {
    std::string n = std::to_string(i), value = "%v" + n;
    text += "%x" + n + ": " + buffer(stored(types[i])) + ", ";
    body += "  " + value + " = load %x" + n + ", %o, mask = [], vec = 1 : " + tile(stored(types[i])) + "\n";
    if (stored(types[i]) != types[i]) {
      body += "  %w" + n + " = convert " + value + " : " + tile(types[i]) + "\n";
      value = "%w" + n;
    }
    operands += (i ? ", " : " ") + value;
  }
  text += "%y: " + buffer(stored(result)) + ") at machine, threads = 32 {\n  %o = constant 0 : index\n" + body;
  text += "  %r = " + op + operands + " : " + tile(result) + "\n";
  std::string last = "%r";
  if (stored(result) != result) {
    text += "  %t = convert %r : " + tile(stored(result)) + "\n";
    last = "%t";
  }
  return text + "  store " + last + ", %y, %o, mask = [], vec = 1\n  return\n}\n";
}

std::string one(const std::string &op, const std::vector<std::string> &types, const std::string &result,
                std::string_view name = defaultTarget) {
  return ptxOf(header + kernel("k", op, types, result), name);
}

/// Kernels for all primitive rows of the table.
std::string allPrimitives() {
  std::string text = header;
  for (const OpInfo &info : allOps()) {
    if (!info.elementwise || info.expands || (info.typeRule != TypeRule::Elementwise && info.typeRule != TypeRule::Compare))
      continue;
    size_t operands = 1;
    for (char c : info.operands)
      operands += c == ',';
    for (const char *type : {"f64", "f32", "f16", "bf16", "i64", "i32", "i1"}) {
      if (!info.dtypes.contains(*parseDType(type)))
        continue;
      std::string name = std::string(info.name) + "_" + type;
      std::vector<std::string> types(operands, type);
      if (info.typeRule == TypeRule::Elementwise)
        text += kernel(name, std::string(info.name), types, type);
      else
        for (std::string_view word : info.word->words)
          text += kernel(name + "_" + std::string(word), std::string(info.name) + " " + std::string(word), types, "i1");
    }
  }
  return text;
}

std::string allConversions() {
  std::string text = header;
  const char *types[] = {"f64", "f32", "f16", "bf16", "i64", "i32", "i1", "i8", "u8", "f8e4m3", "f8e5m2"};
  for (const char *from : types)
    for (const char *to : types)
      if (from != std::string_view(to))
        text += kernel(std::string(from) + "_to_" + to, "convert", {from}, to);
  for (const char *type : {"f64", "f32", "f16", "bf16", "i32", "i1", "f8e4m3"})
    text += kernel(std::string("select_") + type, "select", {"i1", type, type}, type);
  text += kernel("bits_f8e5m2", "bitcast", {"f8e5m2"}, "u8") + kernel("float_u8", "bitcast", {"u8"}, "f8e4m3");
  text += kernel("bits_f32", "bitcast", {"f32"}, "i32") + kernel("float_i32", "bitcast", {"i32"}, "f32");
  return text + kernel("bits_f64", "bitcast", {"f64"}, "i64") + kernel("float_i64", "bitcast", {"i64"}, "f64");
}

TEST(Scalar, EveryPrimitiveOnEveryTarget) {
  std::string text = allPrimitives();
  for (std::string_view name : targets) {
    std::string ptx = ptxOf(text, name);
    EXPECT_GT(count(ptx, ".entry"), 80u);
    EXPECT_TRUE(ptxasPath().empty() || ptxasComplaints(ptx, name).empty()) << ptxasComplaints(ptx, name);
  }
}

TEST(Scalar, EveryConversionOnEveryTarget) {
  std::string text = allConversions();
  for (std::string_view name : targets) {
    std::string ptx = ptxOf(text, name);
    EXPECT_EQ(count(ptx, ".entry"), 11u * 10u + 7u + 6u);
    EXPECT_TRUE(ptxasPath().empty() || ptxasComplaints(ptx, name).empty()) << ptxasComplaints(ptx, name);
  }
}

TEST(Scalar, RoundsOnceAndKeepsDenormals) {
  for (const char *type : {"f32", "f64"}) {
    std::string suffix = std::string(".rn.") + type;
    for (const char *op : {"add", "sub", "mul", "div"})
      EXPECT_TRUE(has(one(op, {type, type}, type), op + suffix)) << op;
    EXPECT_TRUE(has(one("sqrt", {type}, type), "sqrt" + suffix));
    EXPECT_TRUE(has(one("fma", {type, type, type}, type), "fma" + suffix));
  }
  // But for the two ops whose names say so.
  std::string all = ptxOf(allPrimitives());
  EXPECT_EQ(count(all, ".ftz"), 2u);
  EXPECT_EQ(count(all, ".approx"), 2u);
  EXPECT_TRUE(has(all, "ex2.approx.ftz.f32") && has(all, "rcp.approx.ftz.f32"));
}

TEST(Scalar, ProductAndSumAreNotContracted) {
  for (std::string_view name : targets) {
    std::string ptx = ptxOf(std::string(header) + R"(
      kernel @k(%a: buffer<32xf32>, %b: buffer<32xf32>, %c: buffer<32xf32>, %y: buffer<32xf32>) at machine, threads = 32 {
        %o = constant 0 : index
        %va = load %a, %o, mask = [], vec = 1 : tile<32xf32, #v>
        %vb = load %b, %o, mask = [], vec = 1 : tile<32xf32, #v>
        %vc = load %c, %o, mask = [], vec = 1 : tile<32xf32, #v>
        %p = mul %va, %vb : tile<32xf32, #v>
        %s = add %p, %vc : tile<32xf32, #v>
        store %s, %y, %o, mask = [], vec = 1
        return
      })",
                            name);
    EXPECT_TRUE(has(ptx, "mul.rn.f32") && has(ptx, "add.rn.f32")) << ptx;
    EXPECT_FALSE(has(ptx, "fma"));
  }
}

TEST(Scalar, MaximumAndMinimumPropagateNaN) {
  EXPECT_TRUE(has(one("max", {"f32", "f32"}, "f32"), "max.NaN.f32"));
  EXPECT_TRUE(has(one("min", {"f32", "f32"}, "f32"), "min.NaN.f32"));
  EXPECT_TRUE(has(one("relu", {"f32"}, "f32"), "max.NaN.f32"));
  EXPECT_TRUE(has(one("max", {"f64", "f64"}, "f64"), "setp.nan.f64"));
  EXPECT_TRUE(has(one("max", {"i32", "i32"}, "i32"), "max.s32"));
}

TEST(Scalar, IntegersAvoidWhatPtxasGetsWrong) {
  // ptxas 13.0 makes the maximum of x, y and z of max(max(x, -y), z), and takes |-2^31| for positive: LLVM must not say neg or abs.
  // The results are checked in test/gpu/check_gpu.py.
  for (std::string type : {"i32", "i64"})
    for (std::string op : {"max", "min"}) {
      std::string body = "  %n = neg %b : " + tile(type) + "\n  %m = " + op + " %a, %n : " + tile(type) + "\n  %r = " + op +
                         " %m, %c : " + tile(type) + "\n  %s = abs %r : " + tile(type) + "\n";
      std::string text = std::string(header) + "kernel @k(";
      for (std::string x : {"a", "b", "c"}) {
        text += "%" + x + "0: " + buffer(type) + ", ";
        body = "  %" + x + " = load %" + x + "0, %o, mask = [], vec = 1 : " + tile(type) + "\n" + body;
      }
      text += "%y: " + buffer(type) + ") at machine, threads = 32 {\n  %o = constant 0 : index\n" + body +
              "  store %s, %y, %o, mask = [], vec = 1\n  return\n}\n";
      std::string ptx = ptxOf(text);
      EXPECT_FALSE(has(ptx, "neg.s")) << ptx;
      EXPECT_FALSE(has(ptx, "abs.s")) << ptx;
      EXPECT_EQ(count(ptx, op + ".s" + type.substr(1)), 2u) << ptx;
      EXPECT_EQ(ptxasComplaints(ptx, defaultTarget), "");
    }
}

TEST(Scalar, ComparisonsAreOrderedButNotEqual) {
  EXPECT_TRUE(has(one("compare eq", {"f32", "f32"}, "i1"), "setp.eq.f32"));
  EXPECT_TRUE(has(one("compare ne", {"f32", "f32"}, "i1"), "setp.neu.f32"));
  EXPECT_TRUE(has(one("compare lt", {"i32", "i32"}, "i1"), "setp.lt.s32"));
}

TEST(Scalar, FloatToIntegerSaturatesAndNaNIsZero) {
  // PTX's cvt does both from f32 to 32 bits; otherwise its NaN is the least integer, and a test is needed.
  std::string narrow = one("convert", {"f32"}, "i32");
  EXPECT_TRUE(has(narrow, "cvt.rzi.s32.f32") && !has(narrow, "setp"));
  std::string wide = one("convert", {"f64"}, "i32");
  EXPECT_TRUE(has(wide, "cvt.rzi.s32.f64") && has(wide, "setp.nan.f64"));
}

TEST(Scalar, NarrowFloatsAreRoundedOnce) {
  EXPECT_TRUE(has(one("convert", {"f64"}, "f16"), "cvt.rn.f16.f64"));
  EXPECT_TRUE(has(one("convert", {"f64"}, "bf16"), "cvt.rn.bf16.f64"));
  EXPECT_TRUE(has(one("convert", {"i32"}, "bf16"), "cvt.rn.bf16.s32"));
  // sm_80 has no such conversions: all go through f32 rounded to odd.
  for (const char *from : {"f64", "i32"}) {
    std::string ptx = one("convert", {from}, "bf16", "sm_80");
    EXPECT_TRUE(has(ptx, "cvt.rz.f32." + std::string(from == std::string("i32") ? "s32" : "f64"))) << ptx;
    EXPECT_FALSE(has(ptx, "cvt.rn.f32")) << ptx;
  }
}

/// What the conversion of a number is in PTX, where the optimizer computes it.
std::string folded(const std::string &number, const std::string &from, const std::string &to) {
  std::string ptx =
      ptxOf(header + std::string("kernel @k(%y: buffer<32x") + to +
            ">) at machine, threads = 32 {\n  %o = constant 0 : index\n  %x = constant " + number + " : tile<32x" + from +
            ", #v>\n  %c = convert %x : tile<32x" + to + ", #v>\n  store %c, %y, %o, mask = [], vec = 1\n  return\n}\n");
  size_t store = ptx.find("st.global"), comma = ptx.find(", ", store), end = ptx.find(";", store);
  std::string stored = ptx.substr(comma + 2, end - comma - 2);
  if (stored[0] != '%')
    return stored;
  size_t move = ptx.find(stored + ", ");
  return ptx.substr(move + stored.size() + 2, ptx.find(";", move) - move - stored.size() - 2);
}

TEST(Scalar, Float8IsRoundedOnce) {
  struct {
    const char *number, *from;
    int e4m3, e5m2;
  } rows[] = {{"448.0", "f32", 0x7e, 0x5f},   {"464.0", "f32", 0x7e, 0x5f},         {"464.1", "f32", 0x7f, 0x5f},
              {"-480.0", "f32", 0xff, 0xe0},  {"61439.0", "f32", 0x7f, 0x7b},       {"61440.0", "f32", 0x7f, 0x7c},
              {"-inf", "f32", 0xff, 0xfc},    {"-0.0", "f32", 0x80, 0x80},          {"1.0625", "f32", 0x38, 0x3c},
              {"1.0626", "f32", 0x39, 0x3c},  {"1.1875", "f16", 0x3a, 0x3d},        {"1.1875", "bf16", 0x3a, 0x3d},
              {"0x1p-10", "f32", 0x00, 0x14}, {"0x1.00002p-10", "f32", 0x01, 0x14}, {"-0x1.8p-9", "f32", 0x82, 0x9a},
              {"0x1p-17", "f32", 0x00, 0x00}, {"0x1.8p-16", "f32", 0x00, 0x02},     {"0x1.cp-15", "f16", 0x00, 0x04}};
  auto code = [](const std::string &text) { return text.empty() ? -1 : std::stoi(text) & 0xff; };
  for (auto [number, from, e4m3, e5m2] : rows) {
    EXPECT_EQ(code(folded(number, from, "f8e4m3")), e4m3) << number;
    EXPECT_EQ(code(folded(number, from, "f8e5m2")), e5m2) << number;
  }
  EXPECT_EQ(code(folded("nan", "f32", "f8e4m3")) & 0x7f, 0x7f);
  EXPECT_EQ(code(folded("nan", "f32", "f8e5m2")) & 0x7f, 0x7e);
}

TEST(Scalar, Float8IsExactInF32) {
  // The bits of -1.5, of the least denormals 2^-9 and 2^-16, of the largest, of NaN.
  struct {
    const char *number, *from;
    uint32_t bits;
  } rows[] = {{"-1.5", "f8e4m3", 0xbfc00000},    {"0x1p-9", "f8e4m3", 0x3b000000},  {"448.0", "f8e4m3", 0x43e00000},
              {"-0.0", "f8e4m3", 0x80000000},    {"nan", "f8e4m3", 0x7fc00000},     {"-1.5", "f8e5m2", 0xbfc00000},
              {"0x1p-16", "f8e5m2", 0x37800000}, {"57344.0", "f8e5m2", 0x47600000}, {"-inf", "f8e5m2", 0xff800000}};
  for (auto [number, from, bits] : rows)
    EXPECT_EQ(uint32_t(std::stoll(folded(number, from, "f32"))), bits) << from << " " << number;
}

TEST(Scalar, RoundingToIntegersIsOneInstruction) {
  EXPECT_TRUE(has(one("floor", {"f32"}, "f32"), "cvt.rmi.f32.f32"));
  EXPECT_TRUE(has(one("ceil", {"f64"}, "f64"), "cvt.rpi.f64.f64"));
  EXPECT_TRUE(has(one("round", {"f32"}, "f32"), "cvt.rni.f32.f32"));
}

TEST(Scalar, BooleansAreBytesInMemory) {
  std::string ptx = one("and", {"i1", "i1"}, "i1");
  EXPECT_EQ(count(ptx, "ld.global.nc.b8"), 2u) << ptx;
  EXPECT_EQ(count(ptx, "st.global.b8"), 1u) << ptx;
}

} // namespace
