#include "minic/Support/HostTensor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <unistd.h>

using namespace minic;

namespace {

class Npy : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("minic-npy-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    path = folder / "a.npy";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void put(const std::string &bytes) { std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size())); }
  std::string contents() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// A file of this header and data; `version` decides the width of the header's length.
  static std::string npy(const std::string &header, const std::string &data, char version = 1) {
    std::string text = std::string("\x93NUMPY") + version + '\0';
    for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
      text += char(header.size() >> (8 * i) & 0xff);
    return text + header + data;
  }
  static std::string dictionary(const std::string &descr, const std::string &shape, const char *fortran = "False") {
    return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
  }
  static std::string floats(std::vector<float> values) {
    return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float)};
  }
  Expected<HostTensor> read(DType expected = DType::F32) { return readNpy(path, expected); }
  /// The error of reading; empty if there is none.
  std::string errorOf(DType expected = DType::F32) {
    auto tensor = read(expected);
    return tensor ? "" : std::string(errorCodeName(tensor.errors().front().code)) + " " + tensor.errors().front().message;
  }

  std::filesystem::path folder, path;
};

bool same(const HostTensor &a, const HostTensor &b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::ranges::equal(a.bytes(), b.bytes());
}

TEST_F(Npy, RoundTrip) {
  for (DType t : {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64, DType::I32, DType::I1})
    for (std::vector<int64_t> shape : std::vector<std::vector<int64_t>>{{}, {1}, {5}, {2, 3}, {0}, {3, 0, 2}, {2, 3, 4, 5}}) {
      HostTensor tensor(t, shape);
      fillRandom(tensor, 3);
      ASSERT_TRUE(writeNpy(path, tensor));
      EXPECT_EQ((contents().size() - tensor.bytes().size()) % 64, 0u);
      auto back = read(t);
      ASSERT_TRUE(back) << back.errors().front().message;
      EXPECT_TRUE(same(*back, tensor)) << shapeString(t, shape);
    }
}

TEST_F(Npy, RefusesFloat8) {
  for (DType t : {DType::F8E4M3, DType::F8E5M2}) {
    std::string type(dtypeName(t));
    auto written = writeNpy(path, HostTensor(t, {2}));
    ASSERT_FALSE(written);
    EXPECT_EQ(written.errors().front().message,
              "'" + path.string() + "' cannot hold " + type + ": .npy has no type for 8-bit floats");
    EXPECT_EQ(written.errors().front().fix, "convert it to f16 in the graph, which is exact");
    ASSERT_TRUE(writeNpy(path, HostTensor(DType::U8, {2})));
    auto back = read(t);
    ASSERT_FALSE(back);
    EXPECT_EQ(back.errors().front().message, written.errors().front().message);
    EXPECT_EQ(back.errors().front().fix, "give a .safetensors file, which has");
  }
}

TEST_F(Npy, KeepsEveryBit) {
  HostTensor tensor(DType::F32, {3});
  uint32_t bits[3] = {0x7f800001, 0x80000000, 0xffc12345}; // A signalling NaN, -0, a NaN with a payload.
  std::memcpy(tensor.bytes().data(), bits, sizeof bits);
  ASSERT_TRUE(writeNpy(path, tensor));
  auto back = read();
  ASSERT_TRUE(back);
  EXPECT_TRUE(same(*back, tensor));
}

TEST_F(Npy, VersionsAndSpellings) {
  std::string data = floats({1, 2, 3});
  for (char version : {1, 2, 3}) {
    put(npy(dictionary("<f4", "(3,)"), data, version));
    EXPECT_EQ(errorOf(), "") << int(version);
  }
  // Another order of keys and other quotes.
  put(npy("{\"shape\":(3,),\"fortran_order\":False,\"descr\":\"<f4\"}", data));
  EXPECT_EQ(errorOf(), "");
  for (char version : {0, 4, 127}) {
    put(npy(dictionary("<f4", "(3,)"), data, version));
    EXPECT_EQ(errorOf().substr(0, 5), "E0601") << int(version);
  }
}

TEST_F(Npy, FortranOrder) {
  put(npy(dictionary("<f4", "(2, 3)", "True"), floats({0, 3, 1, 4, 2, 5})));
  auto tensor = read();
  ASSERT_TRUE(tensor);
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(tensor->get(i), i);
  // Three axes: element (i, j, k) is i + 2 (j + 3 k).
  std::vector<float> values(24);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(i);
  put(npy(dictionary("<f4", "(2, 3, 4)", "True"), floats(values)));
  tensor = read();
  ASSERT_TRUE(tensor);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k)
        EXPECT_EQ(tensor->get((i * 3 + j) * 4 + k), i + 2 * (j + 3 * k));
  put(npy(dictionary("<f4", "(2, 0)", "True"), ""));
  EXPECT_EQ(errorOf(), "");
}

TEST_F(Npy, BigEndianIsRefusedWithAFix) {
  put(npy(dictionary(">f4", "(3,)"), floats({1, 2, 3})));
  auto tensor = read();
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.errors().front().code, ErrorCode::BadNpy);
  EXPECT_NE(tensor.errors().front().message.find("big-endian"), std::string::npos);
  EXPECT_FALSE(tensor.errors().front().fix.empty());
}

TEST_F(Npy, TypesThatAreNot) {
  for (const char *descr : {"<f16", "<c8", "<U4", "|O", "<u4", "|u1", "|V8", "=f4", "f4", "<M8[ns]"}) {
    put(npy(dictionary(descr, "(1,)"), std::string(16, '\0')));
    EXPECT_EQ(errorOf().substr(0, 5), "E0601") << descr;
  }
  put(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", floats({1})));
  EXPECT_EQ(errorOf().substr(0, 5), "E0601");
}

TEST_F(Npy, Bfloat16OnlyWhereExpected) {
  for (const char *descr : {"<u2", "<V2", "|V2"}) {
    put(npy(dictionary(descr, "(1,)"), std::string("\x80\x3f", 2)));
    auto tensor = read(DType::BF16);
    ASSERT_TRUE(tensor) << descr;
    EXPECT_EQ(tensor->get(0), 1);
    EXPECT_NE(errorOf(DType::F16), "") << descr;
  }
}

TEST_F(Npy, BooleansAreZeroOrOne) {
  put(npy(dictionary("|b1", "(3,)"), std::string("\x00\x01\x7f", 3)));
  auto tensor = read(DType::I1);
  ASSERT_TRUE(tensor);
  EXPECT_EQ(int(tensor->bytes()[2]), 1);
}

TEST_F(Npy, TruncatedAtEachByte) {
  HostTensor tensor(DType::F32, {2, 3});
  fillIota(tensor);
  ASSERT_TRUE(writeNpy(path, tensor));
  std::string whole = contents();
  for (size_t size = 0; size < whole.size(); ++size) {
    put(whole.substr(0, size));
    ASSERT_EQ(errorOf().substr(0, 5), "E0601") << size;
  }
  put(whole + "x");
  EXPECT_EQ(errorOf().substr(0, 5), "E0601") << "bytes after the end";
}

TEST_F(Npy, EachByteDamaged) {
  HostTensor tensor(DType::F32, {2, 3});
  ASSERT_TRUE(writeNpy(path, tensor));
  const std::string whole = contents();
  std::mt19937 random(1);
  for (size_t i = 0; i < whole.size(); ++i)
    for (int round = 0; round < 4; ++round) {
      std::string text = whole;
      text[i] = round == 0 ? '\0' : round == 1 ? '\xff' : round == 2 ? '9' : char(random());
      put(text);
      auto result = read(); // Any outcome but a crash, or memory beyond the file's size.
      if (result) {
        ASSERT_LE(result->bytes().size(), whole.size());
      }
    }
}

TEST_F(Npy, HugeHeaderTakesNoMemory) {
  std::string text = npy(dictionary("<f4", "(3,)"), floats({1, 2, 3}), 2);
  text.replace(8, 4, "\xff\xff\xff\xff");
  put(text);
  EXPECT_EQ(errorOf().substr(0, 5), "E0601");
  put(npy(std::string(1 << 20, ' '), "", 2)); // All there, but no sane header.
  EXPECT_EQ(errorOf().substr(0, 5), "E0601");
}

TEST_F(Npy, ShapesThatCannotBe) {
  for (const char *shape :
       {"(9223372036854775807, 9223372036854775807)", "(4611686018427387904, 2)", "(99999999999999999999,)", "(1000000000000,)",
        "(-1,)", "(0, 4611686018427387904, 4)", "(1.5,)", "(3", "3", "(3,", "()", "(,)", "(3 3)", "(a,)", ""}) {
    put(npy(dictionary("<f4", shape), floats({1, 2, 3})));
    EXPECT_EQ(errorOf().substr(0, 5), "E0601") << shape;
  }
  std::string deep = "(";
  for (int i = 0; i < 10000; ++i)
    deep += "1,";
  put(npy(dictionary("<f4", deep + ")"), floats({1})));
  EXPECT_EQ(errorOf().substr(0, 5), "E0601");
}

TEST_F(Npy, FilesThatAreNot) {
  EXPECT_EQ(errorOf().substr(0, 5), "E0108"); // Not there.
  path = folder;
  EXPECT_EQ(errorOf().substr(0, 5), "E0108"); // A folder.
  EXPECT_FALSE(writeNpy(folder / "no" / "such" / "a.npy", HostTensor(DType::F32, {1})));
  path = folder / "text.npy";
  put("hello, this is no array");
  EXPECT_EQ(errorOf().substr(0, 5), "E0601");
  put("");
  EXPECT_EQ(errorOf().substr(0, 5), "E0601");
}

// Written by numpy 1.24: np.save(f, np.arange(3, dtype='<i4')).
TEST_F(Npy, ReadsWhatNumpyWrites) {
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }";
  header.resize(117, ' ');
  header += '\n';
  int32_t values[3] = {0, 1, 2};
  put(npy(header, std::string(reinterpret_cast<char *>(values), sizeof values)));
  auto tensor = read(DType::I32);
  ASSERT_TRUE(tensor);
  EXPECT_EQ(tensor->get(2), 2);
  // And minic writes the same bytes.
  std::string numpys = contents();
  ASSERT_TRUE(writeNpy(path, *tensor));
  EXPECT_EQ(contents().substr(0, 60), numpys.substr(0, 8) + contents().substr(8, 2) + numpys.substr(10, 50));
}

} // namespace
