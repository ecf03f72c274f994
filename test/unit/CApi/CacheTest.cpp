// The cache on disk and code for each shape, through the C interface.
#include "CApiTest.h"

#include <cstdlib>
#include <filesystem>

namespace {

class CApiCache : public OnCpu {
protected:
  void SetUp() override {
    OnCpu::SetUp();
    std::string pattern = testing::TempDir() + "minic-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    directory = folder + "/cache";
  }
  void TearDown() override {
    OnCpu::TearDown();
    std::filesystem::remove_all(folder);
  }
  MinicError *open(MinicCache **cache, const char *use = nullptr) {
    MinicCacheOptions options = {};
    options.struct_size = sizeof options;
    options.use = use;
    options.directory = directory.c_str();
    options.notice = [](void *context, const char *message) { *static_cast<std::string *>(context) += message; };
    options.notice_context = &notices;
    return minic_cache_open(&options, cache);
  }
  MinicError *compile(MinicCache *cache, MinicArtifact **made, const char *numerics = nullptr) {
    MinicCompileOptions options = {};
    options.struct_size = sizeof options;
    options.device = device;
    options.cache = cache;
    options.numerics = numerics;
    return minic_compile_text(scaleText, strlen(scaleText), &options, made);
  }
  void compileAndDrop(MinicCache *cache) {
    MinicArtifact *made;
    ASSERT_FINE(compile(cache, &made));
    EXPECT_FINE(minic_artifact_destroy(made));
  }
  static MinicCacheInfo infoOf(MinicCache *cache) {
    MinicCacheInfo info = {};
    info.struct_size = sizeof info;
    EXPECT_FINE(minic_cache_info(cache, &info));
    return info;
  }
  std::string folder, directory, notices;
};

TEST_F(CApiCache, KeepsArtifacts) {
  MinicCache *cache, *later, *only, *anew;
  MinicArtifact *made;
  ASSERT_FINE(open(&cache));
  EXPECT_EQ(infoOf(cache).directory, directory);
  EXPECT_EQ(infoOf(cache).writable, 1);
  EXPECT_EQ(infoOf(cache).limit, uint64_t(1) << 30);
  compileAndDrop(cache);
  EXPECT_EQ(infoOf(cache).misses, 1u);
  EXPECT_EQ(infoOf(cache).kept, 1u);
  EXPECT_EQ(infoOf(cache).entries, 1u);
  EXPECT_FINE(minic_cache_destroy(cache));

  ASSERT_FINE(open(&later, "on"));
  compileAndDrop(later);
  EXPECT_EQ(infoOf(later).hits, 1u);
  EXPECT_EQ(infoOf(later).kept, 0u);
  EXPECT_FINE(minic_cache_destroy(later));

  ASSERT_FINE(open(&only, "must-hit"));
  compileAndDrop(only);
  EXPECT_ERROR(compile(only, &made, "fast"), "E0910", "no artifact of 'scale' is kept");
  EXPECT_EQ(made, nullptr);
  EXPECT_FINE(minic_cache_destroy(only));

  ASSERT_FINE(open(&anew, "refresh"));
  compileAndDrop(anew);
  EXPECT_EQ(infoOf(anew).hits, 0u);
  EXPECT_EQ(infoOf(anew).kept, 1u);
  EXPECT_FINE(minic_cache_destroy(anew));
  EXPECT_EQ(notices, "");
}

TEST_F(CApiCache, SaysWhatIsDamaged) {
  MinicCache *cache;
  ASSERT_FINE(open(&cache));
  compileAndDrop(cache);
  for (const auto &entry : std::filesystem::directory_iterator(directory))
    std::filesystem::resize_file(entry.path(), entry.file_size() - 1);
  compileAndDrop(cache);
  EXPECT_EQ(infoOf(cache).damaged, 1u);
  EXPECT_NE(notices.find("is damaged"), std::string::npos) << notices;
  EXPECT_FINE(minic_cache_destroy(cache));
}

TEST_F(CApiCache, NothingIsKeptUnlessItIsAsked) {
  setenv("MINIC_CACHE_DIR", directory.c_str(), 1);
  compileAndDrop(nullptr);
  EXPECT_FALSE(std::filesystem::exists(directory));
  MinicCache *cache;
  ASSERT_FINE(minic_cache_open(nullptr, &cache)); // Where the environment says.
  EXPECT_EQ(infoOf(cache).directory, directory);
  EXPECT_FINE(minic_cache_destroy(cache));
}

TEST_F(CApiCache, Refusals) {
  MinicCache *cache;
  EXPECT_ERROR(open(&cache, "sometimes"), "E1102", "'options.use' is 'sometimes', expected on, refresh or must-hit");
  EXPECT_ERROR(minic_cache_open(nullptr, nullptr), "E1102", "argument 'cache' is NULL");
  directory = "/proc/none";
  MinicError *error = open(&cache);
  EXPECT_STREQ(minic_error_code(error), "E0908");
  EXPECT_EQ(minic_error_kind(error), MINIC_ERROR_ENVIRONMENT);
  minic_error_destroy(error);
  EXPECT_EQ(cache, nullptr);
  MinicCacheInfo info = {};
  info.struct_size = sizeof info;
  EXPECT_ERROR(minic_cache_info(nullptr, &info), "E1101", "argument 'cache' is NULL, expected a cache");
  EXPECT_ERROR(minic_device_use_cache(device, reinterpret_cast<MinicCache *>(device)), "E1101", "expected a cache");
  EXPECT_FINE(minic_device_use_cache(device, nullptr));
}

TEST_F(CApiCache, CodeForEachShape) {
  MinicCache *cache;
  ASSERT_FINE(open(&cache));
  EXPECT_FINE(minic_device_use_cache(device, cache));
  MinicCompileOptions options = {};
  options.struct_size = sizeof options;
  options.cache = cache;
  ASSERT_FINE(minic_executable_specialize(executable, scaleText, strlen(scaleText), &options));
  ASSERT_FINE(minic_executable_limit_shapes(executable, 2));
  EXPECT_ERROR(minic_executable_limit_shapes(executable, 0), "E1102", "argument 'limit' is 0");
  auto run = [&](int64_t rows) {
    std::vector<float> x(size_t(rows) * 2, 3), w = {10, 100}, y(size_t(rows) * 2);
    std::vector<int64_t> matrix = {rows, 2}, row = {2};
    MinicTensor in[] = {tensor(x.data(), matrix), tensor(w.data(), row)}, out[] = {tensor(y.data(), matrix)};
    MinicError *error = minic_executable_run_host(executable, in, 2, out, 1);
    for (size_t i = 0; !error && i < y.size(); ++i)
      EXPECT_EQ(y[i], i % 2 ? 600 : 60);
    return error;
  };
  for (int64_t rows : {1, 2, 1, 3, 2})
    EXPECT_FINE(run(rows));
  auto counts = [&] {
    MinicShapeCounts is = {};
    is.struct_size = sizeof is;
    EXPECT_FINE(minic_executable_shape_counts(executable, &is));
    return is;
  };
  MinicShapeCounts is = counts();
  EXPECT_EQ(is.misses, 4u);
  EXPECT_EQ(is.compilations, 4u);
  EXPECT_EQ(is.evictions, 2u);
  EXPECT_EQ(is.kept, 2u);
  EXPECT_EQ(is.limit, 2u);
  EXPECT_GE(is.hits, 1u);
  EXPECT_EQ(infoOf(cache).entries, 3u); // What was forgotten is kept on disk.
  EXPECT_EQ(infoOf(cache).hits, 1u);
  ASSERT_FINE(minic_executable_allow_compilation(executable, 0));
  EXPECT_FINE(run(3));
  EXPECT_ERROR(run(7), "E0910", "'scale' has no code for M = 7, N = 2, and nothing may be compiled for a new shape");
  ASSERT_FINE(minic_executable_allow_compilation(executable, 1));
  EXPECT_FINE(run(7));
  EXPECT_ERROR(minic_executable_specialize(executable, "nonsense", 8, nullptr), "E0102", "nonsense");
  EXPECT_FINE(minic_cache_destroy(cache));
}

} // namespace
