#include "CheckPlan.h"
#include "Manifest.h"
#include "minic/Support/TensorMap.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <span>

namespace minic {
namespace {

using Json = nlohmann::json;

std::string inQuotes(std::string_view text) { return "'" + std::string(text.substr(0, 64)) + (text.size() > 64 ? "...'" : "'"); }

/// A place in JSON that nobody has checked. What is missing or of another kind reads as empty; the first such place is the fault.
class Place {
public:
  Place(const Json &value, std::string path, std::string &fault) : value(&value), path(std::move(path)), fault(&fault) {}

  void refuse(const std::string &why) const {
    if (fault->empty())
      *fault = path + " " + why;
  }
  bool has(const char *field) const { return value->is_object() && value->contains(field); }
  Place operator[](const char *field) const {
    static const Json nothing;
    std::string inner = path.empty() ? field : path + "." + field;
    if (has(field))
      return {value->find(field).value(), std::move(inner), *fault};
    Place missing(nothing, std::move(inner), *fault);
    missing.refuse("is missing");
    return missing;
  }
  std::string text() const {
    if (!value->is_string()) {
      refuse("is no text");
      return {};
    }
    const std::string &text = value->get_ref<const std::string &>();
    // Names are printed, and no file may drive the terminal.
    if (std::ranges::any_of(text, [](char c) { return (c >= 0 && c < 32) || c == 127; }))
      refuse("has a control character");
    return text;
  }
  bool isTrue() const {
    if (!value->is_boolean())
      refuse("is neither true nor false");
    return value->is_boolean() && value->get<bool>();
  }
  /// `least` is at least 0.
  int64_t number(int64_t least, int64_t most) const {
    int64_t result = value->is_number_integer() ? value->get<int64_t>() : -1; // From 2^63 on it is negative.
    if (result >= least && result <= most)
      return result;
    refuse("is no number from " + std::to_string(least) + " to " + std::to_string(most));
    return least;
  }
  /// What `read` makes of each element of a list.
  template <typename Read> auto list(Read read) const {
    std::vector<decltype(read(*this))> result;
    if (!value->is_array())
      refuse("is no list");
    for (size_t i = 0; value->is_array() && i < value->size() && fault->empty(); ++i)
      result.push_back(read(Place((*value)[i], path + "[" + std::to_string(i) + "]", *fault)));
    return result;
  }

private:
  const Json *value;
  std::string path;
  std::string *fault;
};

std::string readText(const Place &place) { return place.text(); }

DimExpr readDim(const Place &place) {
  std::string text = place.text();
  auto dim = parseDimExpr(text);
  if (!dim)
    place.refuse("is no size: " + inQuotes(text));
  return dim.value_or(0);
}

DType readDType(const Place &place) {
  std::string word = place.text();
  auto dtype = parseDType(word);
  if (!dtype)
    place.refuse("is no element type: " + inQuotes(word));
  return dtype.value_or(DType::F32);
}

TensorSpec readSpec(const Place &place) {
  return {place["name"].text(), readDType(place["dtype"]), place["shape"].list(readDim),
          place.has("strided") && place["strided"].isTrue()};
}

KernelParam readParam(const Place &place) {
  KernelParam param{place["name"].text()};
  if (place.has("stridedAxes"))
    param.stridedAxes = int(place["stridedAxes"].number(0, 64));
  if (!place.has("map"))
    return param;
  Place map = place["map"];
  auto extent = [](const Place &place) { return place.number(1, INT32_MAX); };
  param.map = {readDType(map["dtype"]), map["shape"].list(readDim), map["box"].list(extent), map["swizzle"].number(0, 128),
               map.has("tf32") && map["tf32"].isTrue()};
  if (param.map->tf32 && param.map->dtype != DType::F32)
    map.refuse("rounds to tf32, which only f32 is rounded to");
  if (auto why = tensorMapFault(param.map->dtype, param.map->shape, param.map->box, param.map->swizzle))
    map.refuse(*why);
  return param;
}

class ManifestReader {
public:
  explicit ManifestReader(std::string_view blobs) : blobs(blobs) {}

  ManifestContents run(std::string_view manifest) {
    ManifestContents contents;
    // Without exceptions what is no JSON gives a value of its own kind.
    Json root = Json::parse(manifest, nullptr, false);
    if (root.is_discarded()) {
      contents.fault = "its manifest is no JSON";
      return contents;
    }
    Place top(root, "", fault);
    contents.writer = top["minic"].text();
    Place variants = top["variants"];
    contents.artifacts = variants.list([&](const Place &place) { return variant(place); });
    if (contents.artifacts.empty())
      variants.refuse("is empty");
    checkVariants(contents.artifacts, variants);
    if (fault.empty() && next != blobs.size())
      fault = std::to_string(blobs.size() - next) + " bytes after the manifest belong to nothing";
    contents.fault = std::move(fault);
    return contents;
  }

private:
  /// Blobs stand in the order in which they are named, without gaps, so no bytes are taken twice.
  std::string_view blob(const Place &place) {
    auto most = int64_t(blobs.size());
    size_t offset = size_t(place["offset"].number(0, most)), size = size_t(place["size"].number(0, most));
    if (offset != next)
      place.refuse("starts at " + std::to_string(offset) + ", but what comes before it ends at " + std::to_string(next));
    else if (size > blobs.size() - offset)
      place.refuse("ends after the file");
    else
      next += size;
    return fault.empty() ? blobs.substr(offset, size) : std::string_view();
  }

  KernelCode kernel(const Place &place) {
    KernelCode kernel;
    kernel.name = place["name"].text();
    kernel.ops = place["ops"].list(readText);
    kernel.params = place["params"].list(readParam);
    kernel.dims = place["dims"].list(readDim);
    if (place.has("entry"))
      kernel.entry = place["entry"].text();
    kernel.threads = place["threads"].number(0, INT32_MAX);
    kernel.sharedBytes = place["sharedBytes"].number(0, INT32_MAX);
    kernel.dynamicSharedBytes = place["dynamicSharedBytes"].number(0, INT32_MAX);
    if (place.has("overriddenBy"))
      kernel.overriddenBy = place["overriddenBy"].text();
    if (place.has("clusterCtas"))
      kernel.clusterCtas = place["clusterCtas"].number(1, 16);
    kernel.waitsForLaunches = place.has("waitsForLaunches") && place["waitsForLaunches"].isTrue();
    kernel.ptx = blob(place["ptx"]);
    kernel.cubin = blob(place["cubin"]);
    return kernel;
  }

  static PlanStep step(const Place &place) {
    using Kind = PlanStep::Kind;
    PlanStep step{.kind = Kind::Alloc};
    auto index = [](const Place &place) { return int(place.number(0, INT32_MAX)); };
    std::string word = place["kind"].text(), known;
    bool found = false;
    for (int i = 0; i <= int(Kind::LibraryCall) && !found; ++i) {
      step.kind = Kind(i);
      found = stepName(step.kind) == word;
      known += (known.empty() ? "" : ", ") + std::string(stepName(step.kind));
    }
    if (!found)
      place["kind"].refuse("is " + inQuotes(word) + ", expected one of " + known);
    if (step.definesBuffer())
      step.result = index(place["result"]);
    if (place.has("operands"))
      step.operands = place["operands"].list(index);
    if (step.kind == Kind::Constant)
      step.constant = index(place["constant"]);
    if (step.kind == Kind::Launch) {
      step.kernel = index(place["kernel"]);
      step.grid = place["grid"].list(readDim);
    }
    if (step.kind == Kind::LibraryCall)
      step.matmul = libraryCall(place);
    return step;
  }

  static MatmulCall libraryCall(const Place &place) {
    auto expect = [&](const char *field, std::string_view expected) {
      if (std::string word = place[field].text(); word != expected)
        place[field].refuse("is " + inQuotes(word) + ", expected " + std::string(expected));
    };
    expect("library", "cublaslt");
    expect("function", "matmul");
    std::vector<bool> transposed = place["transposed"].list([](const Place &place) { return place.isTrue(); });
    if (transposed.size() != 2)
      place["transposed"].refuse("is not for two operands");
    transposed.resize(2);
    std::string word = place["epilogue"].text();
    auto epilogue = parseEpilogue(word);
    if (!epilogue)
      place["epilogue"].refuse("is no epilogue: " + inQuotes(word));
    return {transposed[0], transposed[1], epilogue.value_or(MatmulEpilogue::None)};
  }

  static Plan plan(const Place &place) {
    Plan plan;
    plan.name = place["name"].text();
    plan.facts = place["where"].list([](const Place &place) {
      std::string text = place.text();
      auto fact = parseDimFact(text);
      if (!fact)
        place.refuse("says nothing of a size: " + inQuotes(text));
      return fact ? *fact : DimFact{};
    });
    plan.buffers = place["buffers"].list([](const Place &place) { return PlanBuffer{readSpec(place)}; });
    auto count = int64_t(plan.buffers.size());
    for (int64_t i = 0, inputs = place["inputs"].number(0, count); i < inputs; ++i)
      plan.inputs.push_back(plan.buffers[size_t(i)].spec);
    plan.resultBuffers = place["results"].list([&](const Place &place) {
      int buffer = int(place["buffer"].number(0, count - 1));
      // The bound is no bound where there are no buffers.
      plan.results.push_back(buffer < count ? plan.buffers[size_t(buffer)].spec : TensorSpec{});
      plan.results.back().name = place["name"].text();
      return buffer;
    });
    plan.steps = place["steps"].list(step);
    return plan;
  }

  Artifact variant(const Place &place) {
    Artifact artifact;
    artifact.target = place["target"].text();
    if (!devicesOf(artifact.target))
      place["target"].refuse("is no target: " + inQuotes(artifact.target));
    artifact.numerics = place["numerics"].text();
    if (place.has("passes"))
      artifact.passes = place["passes"].text();
    if (artifact.numerics != "exact" && artifact.numerics != "default" && artifact.numerics != "fast")
      place["numerics"].refuse("is " + inQuotes(artifact.numerics) + ", expected one of exact, default, fast");
    artifact.text = blob(place["text"]);
    artifact.kernels = place["kernels"].list([&](const Place &place) { return kernel(place); });
    artifact.constants = place["constants"].list([&](const Place &place) {
      auto bytes = std::as_bytes(std::span(blob(place)));
      return std::vector(bytes.begin(), bytes.end());
    });
    Place plans = place["plans"];
    artifact.plans = plans.list(plan);
    if (artifact.plans.empty()) {
      plans.refuse("is empty");
      artifact.plans.emplace_back();
    }
    if (auto checked = checkPlans(artifact); !checked)
      place.refuse("does not hold together: " + checked.errors().front().message);
    return artifact;
  }

  /// One graph, each time for another target.
  void checkVariants(const std::vector<Artifact> &artifacts, const Place &variants) const {
    for (size_t i = 1; i < artifacts.size(); ++i) {
      const Plan &plan = artifacts[i].signature(), &first = artifacts[0].signature();
      if (plan.name != first.name || !sameSpecs(plan.inputs, first.inputs) || !sameSpecs(plan.results, first.results))
        variants.refuse("are not of one graph");
      for (size_t other = 0; other < i; ++other)
        if (artifacts[i].target == artifacts[other].target)
          variants.refuse("has the target " + inQuotes(artifacts[i].target) + " twice");
    }
  }

  static bool sameSpecs(const std::vector<TensorSpec> &a, const std::vector<TensorSpec> &b) {
    return std::ranges::equal(a, b, [](const TensorSpec &x, const TensorSpec &y) {
      return x.name == y.name && x.dtype == y.dtype && x.shape == y.shape && x.strided == y.strided;
    });
  }

  std::string_view blobs;
  size_t next = 0; ///< Where the blob that is named next must start.
  std::string fault;
};

} // namespace

ManifestContents readManifest(std::string_view manifest, std::string_view blobs) { return ManifestReader(blobs).run(manifest); }

std::optional<TargetDevices> devicesOf(std::string_view target) {
  if (!target.starts_with("sm_"))
    return std::nullopt;
  TargetDevices devices;
  const char *last = target.data() + target.size();
  auto [end, error] = std::from_chars(target.data() + 3, last, devices.computeCapability);
  if (error != std::errc() || devices.computeCapability <= 0)
    return std::nullopt;
  devices.exact = std::string_view(end, size_t(last - end)) == "a";
  return devices.exact || end == last ? std::optional(devices) : std::nullopt;
}

} // namespace minic
