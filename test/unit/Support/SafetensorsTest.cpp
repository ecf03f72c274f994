// Files by hand, as the format's description has them: u64 size of the header, the header, the elements.
#include "minic/Support/Safetensors.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <unistd.h>

using namespace minic;

namespace {

class Safetensors : public testing::Test {
protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "minic-safetensors-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
    path = folder / "w.safetensors";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  static std::string sized(uint64_t size) {
    std::string bytes;
    for (int i = 0; i < 8; ++i)
      bytes += char(size >> (8 * i) & 0xff);
    return bytes;
  }
  void putBytes(const std::string &bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  void put(const std::string &header, const std::string &data) { putBytes(sized(header.size()) + header + data); }
  /// The message of reading a file of this header and data.
  std::string messageFor(const std::string &header, const std::string &data) {
    put(header, data);
    return message();
  }
  std::string message() {
    auto tensors = readSafetensors(path);
    if (tensors)
      return "no error";
    EXPECT_EQ(tensors.errors().front().code, ErrorCode::BadSafetensors);
    std::string text = tensors.errors().front().message, name = "'" + path.string() + "' ";
    EXPECT_TRUE(text.starts_with(name)) << text;
    return text.substr(std::min(name.size(), text.size()));
  }

  std::filesystem::path folder, path;
};

TEST_F(Safetensors, ReadsEveryType) {
  // 1.5 is 0x3ff8... in f64, 0x3fc00000 in f32, 0x3e00 in f16, 0x3fc0 in bf16, 0x3c in e4m3, 0x3e in e5m2; -2 in two's complement.
  std::string data = std::string("\0\0\0\0\0\0\xf8\x3f", 8) + std::string("\xfe\xff\xff\xff\xff\xff\xff\xff", 8) +
                     std::string("\0\0\xc0\x3f", 4) + "\xfe\xff\xff\xff" + std::string("\0\x3e", 2) + "\xc0\x3f" +
                     std::string("\0\1\2", 3) + "\x3c\x3e";
  put(R"({"__metadata__":{"format":"pt"},"d":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
      R"("l":{"dtype":"I64","shape":[],"data_offsets":[8,16]},"f":{"dtype":"F32","shape":[1,1],"data_offsets":[16,20]},)"
      R"("i":{"dtype":"I32","shape":[1],"data_offsets":[20,24]},"h":{"dtype":"F16","shape":[1],"data_offsets":[24,26]},)"
      R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[26,28]},"t":{"dtype":"BOOL","shape":[3],"data_offsets":[28,31]},)"
      R"("e":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[31,32]},"g":{"dtype":"F8_E5M2","shape":[1],"data_offsets":[32,33]},)"
      R"("none":{"dtype":"F32","shape":[0,5],"data_offsets":[33,33]}}   )",
      data);
  auto tensors = readSafetensors(path);
  ASSERT_TRUE(tensors) << tensors.errors().front().message;
  ASSERT_EQ(tensors->size(), 10u); // The metadata is no tensor.
  for (const char *name : {"d", "f", "h", "b", "e", "g"})
    EXPECT_EQ(tensors->at(name).get(0), 1.5) << name;
  for (const char *name : {"l", "i"})
    EXPECT_EQ(tensors->at(name).get(0), -2) << name;
  EXPECT_EQ(tensors->at("b").dtype(), DType::BF16);
  EXPECT_EQ(tensors->at("h").dtype(), DType::F16);
  EXPECT_EQ(tensors->at("l").shape(), std::vector<int64_t>());
  EXPECT_EQ(tensors->at("f").shape(), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(tensorText(tensors->at("t")), "[false, true, true]");
  EXPECT_EQ(int(tensors->at("t").bytes()[2]), 1);
  EXPECT_EQ(tensors->at("none").shape(), (std::vector<int64_t>{0, 5}));
}

TEST_F(Safetensors, ReadsWhatIsWanted) {
  put(R"({"a":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]},)"
      R"("c":{"dtype":"I32","shape":[1],"data_offsets":[6,10]}})",
      std::string("ab\0\0\xc0\x3f\7\0\0\0", 10));
  auto some = readSafetensors(path, std::set<std::string>{"b", "x"});
  ASSERT_TRUE(some) << some.errors().front().message;
  ASSERT_EQ(some->size(), 1u);
  EXPECT_EQ(some->at("b").get(0), 1.5);
  EXPECT_EQ(message(), "has a tensor 'a' of type 'F8_E8M0', expected one of F64, F32, F16, BF16, F8_E4M3, "
                       "F8_E5M2, I64, I32, I8, U8, BOOL");
}

TEST_F(Safetensors, SaysWhatIsWrong) {
  const std::string a = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", eight = "12345678";
  EXPECT_EQ(messageFor(a + "}", eight), "no error");
  EXPECT_EQ(messageFor(a + "}", "1234"), "has a tensor 'a' at bytes 0 to 8, but the file is cut off at 4");
  EXPECT_EQ(messageFor(a + "}", eight + "9"), "has 1 bytes that belong to no tensor");
  EXPECT_EQ(messageFor(a, eight), "has a header that is no JSON object");
  EXPECT_EQ(messageFor("[]", ""), "has a header that is no JSON object");
  EXPECT_EQ(messageFor("{}", ""), "no error");
  EXPECT_EQ(messageFor(a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", eight),
            "has a tensor 'b' at bytes 4 to 8, but what comes before it ends at 8");
  EXPECT_EQ(messageFor(a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[9,13]}})", eight + "12345"),
            "has a tensor 'b' at bytes 9 to 13, but what comes before it ends at 8");
  EXPECT_EQ(messageFor(a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[8,4]}})", eight),
            "has a tensor 'b' at bytes 8 to 4, which is no range");
  EXPECT_EQ(messageFor(a + R"(,"a":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}})", eight), "names 'a' twice");
  const std::string no = "has a tensor 'b' that is not described as {dtype, shape, data_offsets}";
  for (std::string value :
       {"7", "{}", R"({"dtype":"F32","shape":[0]})", R"({"dtype":1,"shape":[0],"data_offsets":[8,8]})",
        R"({"dtype":"F32","shape":0,"data_offsets":[8,8]})", R"({"dtype":"F32","shape":[-1],"data_offsets":[8,8]})",
        R"({"dtype":"F32","shape":[0.5],"data_offsets":[8,8]})", R"({"dtype":"F32","shape":[0],"data_offsets":[8]})",
        R"({"dtype":"F32","shape":[0],"data_offsets":[8,18446744073709551616]})",
        R"({"dtype":"F32","shape":[9223372036854775808],"data_offsets":[8,8]})"})
    EXPECT_EQ(messageFor(a + ",\"b\":" + value + "}", eight), no) << value;
  EXPECT_EQ(messageFor(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", eight),
            "has a tensor 'a' of shape 3xf32 in 8 bytes");
  EXPECT_EQ(messageFor(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", eight),
            "has a tensor 'a' of shape 4611686018427387904x4xf32 in 8 bytes");
}

TEST_F(Safetensors, BoundsTheHeader) {
  putBytes("1234567");
  EXPECT_EQ(message(), "is not a .safetensors file: it has fewer than 8 bytes");
  putBytes(sized(uint64_t(-1)) + "{}");
  EXPECT_EQ(message(), "is not a .safetensors file: its header would have 18446744073709551615 bytes, the limit is 100000000");
  putBytes(sized(100'000'001) + "{}");
  EXPECT_EQ(message(), "is not a .safetensors file: its header would have 100000001 bytes, the limit is 100000000");
  putBytes(sized(3) + "{}");
  EXPECT_EQ(message(), "is cut off in its header");
  auto absent = readSafetensors(folder / "absent");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.errors().front().code, ErrorCode::UnreadableFile);
}

TEST_F(Safetensors, WhateverTheFileSaysIsAnErrorOrTensors) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"BOOL","shape":[2,1],"data_offsets":[8,10]}})";
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    std::string bytes = sized(header.size()) + header + "0123456789";
    for (unsigned count = 1 + random() % 3; count > 0; --count) {
      size_t at = random() % bytes.size();
      if (random() % 3 == 0)
        bytes.erase(at, 1 + random() % 3);
      else
        bytes[at] = random() % 2 ? char(random() % 256) : "0123456789[]{}\",:"[random() % 17];
    }
    putBytes(bytes);
    auto tensors = readSafetensors(path);
    if (!tensors)
      continue;
    size_t total = 0;
    for (const auto &[name, tensor] : *tensors)
      total += tensor.bytes().size();
    ASSERT_LE(total, bytes.size());
  }
}

} // namespace
