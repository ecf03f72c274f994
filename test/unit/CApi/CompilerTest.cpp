// Texts and options through the C interface.
#include "CApiTest.h"

#include <cstdio>
#include <fstream>
#include <unistd.h>

namespace {

MinicCompileOptions defaults() {
  MinicCompileOptions options = {};
  options.struct_size = sizeof options;
  return options;
}

/// Compiles and lets go.
MinicError *compile(const char *text, const MinicCompileOptions *options = nullptr) {
  MinicArtifact *artifact;
  MinicError *error = minic_compile_text(text, strlen(text), options, &artifact);
  if (!error)
    error = minic_artifact_destroy(artifact);
  return error;
}

TEST(CApiCompiler, ErrorsShowTheText) {
  MinicCompileOptions options = defaults();
  options.name = "two.ir";
  MinicError *error =
      compile("graph @g(%x: tensor<Nxf32>) -> tensor<Nxf32> {\n  %y = epx %x : tensor<Nxf32>\n  return %y\n}", &options);
  EXPECT_STREQ(minic_error_code(error), "E0201");
  EXPECT_EQ(minic_error_kind(error), MINIC_ERROR_DATA);
  std::string message = minic_error_message(error);
  EXPECT_EQ(message.find("two.ir:2:8: error: "), 0u) << message;
  EXPECT_NE(message.find("%y = epx %x"), std::string::npos) << message;
  EXPECT_NE(message.find("[E0201]"), std::string::npos) << message;
  EXPECT_NE(std::string(minic_error_fix(error)).find("exp"), std::string::npos) << minic_error_fix(error);
  minic_error_destroy(error);
  EXPECT_ERROR(compile(""), "E0507", "has no");
  EXPECT_ERROR(compile("\xff\xfe{{{"), "E0101", "text:1:1: error:");
}

TEST(CApiCompiler, Options) {
  MinicCompileOptions options = defaults();
  options.target = "sm_80";
  options.numerics = "exact";
  options.mode = "eager";
  options.graph = "scale";
  MinicDim dims[] = {{"M", 4}, {"N", 8}};
  options.dims = dims;
  options.num_dims = 2;
  MinicArtifact *artifact;
  ASSERT_FINE(minic_compile_text(scaleText, strlen(scaleText), &options, &artifact));
  MinicArtifactInfo info = {};
  info.struct_size = sizeof info;
  ASSERT_FINE(minic_artifact_info(artifact, &info));
  EXPECT_STREQ(info.targets, "sm_80");
  EXPECT_STREQ(info.numerics, "exact");
  EXPECT_EQ(info.launches, 2); // add, mul
  const MinicTensorSpec *specs;
  size_t count;
  ASSERT_FINE(minic_artifact_inputs(artifact, &specs, &count));
  EXPECT_EQ(specs[0].sizes[0], 4);
  EXPECT_STREQ(specs[0].dims[1], "8");
  EXPECT_FINE(minic_artifact_destroy(artifact));
}

TEST(CApiCompiler, OptionsThatDoNotFit) {
  MinicCompileOptions options = defaults();
  options.mode = "lazy";
  EXPECT_ERROR(compile(scaleText, &options), "E1102", "argument 'options.mode' is 'lazy', expected fused or eager");
  options = defaults();
  options.matmul = "cublas";
  EXPECT_ERROR(compile(scaleText, &options), "E1102",
               "argument 'options.matmul' is 'cublas', expected auto, generated or cublaslt");
  options.matmul = "cublaslt";
  options.numerics = "exact";
  EXPECT_ERROR(compile(scaleText, &options), "E1001", "exact numerics fix the order");
  options = defaults();
  options.target = "sm_1";
  EXPECT_ERROR(compile(scaleText, &options), "E0801", "sm_1");
  options = defaults();
  options.numerics = "sloppy";
  EXPECT_ERROR(compile(scaleText, &options), "E1001", "sloppy");
  options = defaults();
  options.num_dims = 1;
  EXPECT_ERROR(compile(scaleText, &options), "E1102", "argument 'options.dims' is NULL");
  MinicDim dim = {nullptr, 1};
  options.dims = &dim;
  EXPECT_ERROR(compile(scaleText, &options), "E1102", "argument 'options.dims[0]' has no name");
  dim.name = "K";
  EXPECT_ERROR(compile(scaleText, &options), "E0506", "K");
  options = defaults();
  options.device = reinterpret_cast<MinicDevice *>(&dim);
  EXPECT_ERROR(compile(scaleText, &options), "E1101", "argument 'options.device' is no handle of minic");
  options = defaults();
  options.struct_size = 0;
  EXPECT_ERROR(compile(scaleText, &options), "E1102", "argument 'options' has struct_size 0");
  MinicArtifact *artifact;
  EXPECT_ERROR(minic_compile_file("/nonexistent/x.ir", nullptr, &artifact), "E0108", "/nonexistent/x.ir");
}

TEST(CApiCompiler, CustomOpsAreTexts) {
  const char *text = "graph @g(%x: tensor<Nxf32>) -> (y: tensor<Nxf32>) {\n  %y = custom @f(%x) : tensor<Nxf32>\n  return %y\n}";
  EXPECT_ERROR(compile(text), "E0206", "no custom op is declared as @f");
  const char *customs[] = {"custom @f(%x: tensor<Nxf32>) -> (y: tensor<Nxf32>) {\n  %y = neg %x : tensor<Nxf32>\n  return %y\n}",
                           "custom @h(%x: tensor<Mxf32>) -> (y: tensor<Mxf32>) {\n  return %x\n}"};
  MinicCompileOptions options = defaults();
  options.customs = customs;
  options.num_customs = 2;
  EXPECT_FINE(compile(text, &options));
  customs[1] = customs[0];
  EXPECT_ERROR(compile(text, &options), "E0203", "text:9:8: error: the function `@f` is defined twice");
  customs[1] = nullptr;
  EXPECT_ERROR(compile(text, &options), "E1102", "argument 'options.customs[1]' is NULL");
  options.customs = nullptr;
  EXPECT_ERROR(compile(text, &options), "E1102", "argument 'options.customs' is NULL, expected 2 texts");
}

TEST(CApiCompiler, OptionsOfOtherVersions) {
  MinicCompileOptions options = defaults();
  options.struct_size = offsetof(MinicCompileOptions, mode);
  options.mode = "of no meaning, since it is beyond the size";
  EXPECT_FINE(compile(scaleText, &options));
  struct {
    MinicCompileOptions options;
    const void *later;
  } newer = {defaults(), nullptr};
  newer.options.struct_size = sizeof newer;
  EXPECT_FINE(compile(scaleText, &newer.options));
  newer.later = &newer;
  EXPECT_ERROR(compile(scaleText, &newer.options), "E1102", "argument 'options' sets an option of a newer version");
}

TEST(CApiCompiler, Stages) {
  auto emit = [](const char *stage) {
    MinicText *text;
    EXPECT_FINE(minic_emit_text(scaleText, strlen(scaleText), stage, nullptr, &text));
    size_t size = 0;
    const char *data = minic_text_data(text, &size);
    std::string copy(data, size);
    EXPECT_EQ(copy.c_str() + size - 1, copy.c_str() + strlen(data) - 1); // No zero inside, one after.
    EXPECT_FINE(minic_text_destroy(text));
    return copy;
  };
  EXPECT_NE(emit("graph").find("graph @scale"), std::string::npos);
  EXPECT_NE(emit("fused").find("fusion"), std::string::npos);
  EXPECT_NE(emit("plan").find("launch @"), std::string::npos);
  EXPECT_NE(emit("ptx").find(".target sm_90a"), std::string::npos);
}

TEST(CApiCompiler, Schedules) {
  const char *text = "graph @g(%x: tensor<4096x960xf32>) -> (y: tensor<4096xf32>) {\n"
                     "  %y = reduce sum %x, axes = [1] : tensor<4096xf32>\n  return %y\n}\n";
  std::string path = testing::TempDir() + "schedules-" + std::to_string(getpid()) + ".txt";
  std::ofstream(path) << "minic schedules 2\n"
                         "region {:tensor<AxBxf32>;reduce %0,combiner=sum,axes=[1]:tensor<Axf32>;yield %1}\n"
                         "sizes 4096, 1024\non sm_90a, default, GPU\n"
                         "default #rows<block = [1, 1024], warps = [1, 1], lanes = [1, 32], vec = 4>, 2 us\n"
                         "best #rows<block = [1, 512], warps = [1, 2], lanes = [1, 32], vec = 4>, 1 us\n";
  MinicCompileOptions options = defaults();
  auto hasTuned = [&] {
    MinicText *emitted;
    EXPECT_FINE(minic_emit_text(text, strlen(text), "fused", &options, &emitted));
    size_t size = 0;
    bool found = strstr(minic_text_data(emitted, &size), "block = [1, 512], warps = [1, 2]") != nullptr;
    EXPECT_FINE(minic_text_destroy(emitted));
    return found;
  };
  EXPECT_FALSE(hasTuned());
  options.schedules = path.c_str();
  EXPECT_TRUE(hasTuned());
  options.tuned_for = "GPU";
  EXPECT_TRUE(hasTuned());
  options.tuned_for = "another GPU";
  EXPECT_FALSE(hasTuned());
  options.schedules = "none";
  options.tuned_for = "GPU";
  EXPECT_FALSE(hasTuned());
  options.schedules = "/nonexistent/schedules.txt";
  EXPECT_ERROR(compile(text, &options), "E0108", "/nonexistent/schedules.txt");
  std::ofstream(path) << "minic schedules 1\n";
  options.schedules = path.c_str();
  EXPECT_ERROR(compile(text, &options), "E0102", "version 1");
  std::remove(path.c_str());
}

TEST(CApiCompiler, TheInterpreterSettlesNoTarget) {
  MinicDevice *cpu;
  ASSERT_FINE(minic_device_open("cpu", &cpu));
  MinicCompileOptions options = defaults();
  options.device = cpu;
  MinicArtifact *artifact;
  ASSERT_FINE(minic_compile_text(scaleText, strlen(scaleText), &options, &artifact));
  MinicArtifactInfo info = {};
  info.struct_size = sizeof info;
  ASSERT_FINE(minic_artifact_info(artifact, &info));
  EXPECT_STREQ(info.targets, "sm_90a");
  EXPECT_FINE(minic_artifact_destroy(artifact));
  EXPECT_FINE(minic_device_destroy(cpu));
}

} // namespace
