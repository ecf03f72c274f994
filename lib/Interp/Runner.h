// Runs programs (CTAs) of a prepared kernel, one after the other.
#pragma once

#include "Memory.h"

#include <mutex>

namespace minic::interp {

/// What all programs of one launch share.
struct LaunchState {
  const PreparedKernel *kernel = nullptr;
  std::vector<int64_t> grid;
  std::vector<LaunchBuffer> buffers;

  /// The first error in program order, whatever the order in which programs run: a program after it need not run.
  std::atomic<uint64_t> firstBad = UINT64_MAX;
  bool isMoot(uint64_t program) const { return program > firstBad.load(std::memory_order_relaxed); }
  void report(uint64_t program, Diagnostic error);
  void report(const DoubleStore &error);
  /// After all programs: the error to give.
  std::optional<Diagnostic> finish() const;

private:
  std::mutex mutex;
  std::optional<Diagnostic> error; ///< Of program firstBad, unless `doubleStore` is of that program as well.
  std::optional<DoubleStore> doubleStore;
};

/// "program (1, 2)".
std::string programText(std::span<const int64_t> grid, uint64_t program);

/// One worker. Its slots hold the values of the current program.
class Runner {
public:
  explicit Runner(LaunchState &launch);
  void run(uint64_t program);
  const std::vector<BufferTraffic> &traffic() const { return issued; }

private:
  struct Slot {
    LaneArray lanes;
    int memory = -1; ///< Of a shared memory value: index in `shared`.
  };

  // Everything below gives false after an error, which is then reported.
  bool runBody(const Body &body);
  bool exec(const Instr &instr);
  bool elementwise(const Instr &instr);
  bool programId(const Instr &instr);
  bool forLoop(const Instr &instr);
  bool inBounds(const Instr &instr);
  bool broadcast(const Instr &instr);
  bool load(const Instr &instr);
  bool store(const Instr &instr);
  bool allocShared(const Instr &instr);
  bool sharedStore(const Instr &instr);
  bool sharedLoad(const Instr &instr);
  bool reduce(const Instr &instr);
  bool combine(const Instr &instr, const ReduceInfo &info, std::vector<LaneArray> &lower, const std::vector<LaneArray> &upper,
               int64_t count);
  bool reduceDigit(const Instr &instr, const ReduceInfo &info, std::vector<LaneArray> &values, int64_t outer, int64_t extent,
                   int64_t inner);
  bool dot(const Instr &instr);
  template <typename T>
  bool packOperand(const Instr &instr, unsigned which, const DotOperand &operand, std::vector<T> &packed,
                   std::vector<uint8_t> &absent);
  template <typename T> bool dotAs(const Instr &instr, const DotInfo &info);

  /// Where an access may go: the lanes of the tile that are in bounds, and their addresses.
  struct Box {
    std::vector<int64_t> lo, hi, stride; ///< Per tile axis; stride in elements of the buffer.
    int64_t base = 0;                    ///< Element of the buffer at lane (0, 0, ...), which itself may be outside.
    bool empty = false, whole = true;
  };
  bool boxOf(const Instr &instr, const AccessInfo &info, const LaunchBuffer &buffer, size_t firstIndex, Box &box);
  bool checkVector(const Instr &instr, const AccessInfo &info, const LaunchBuffer &buffer, const Box &box);
  template <int bytes> bool loadRows(const Instr &instr, const AccessInfo &info, int bufferIndex, const Box &box, std::byte *out);
  template <int bytes>
  bool storeRows(const Instr &instr, const AccessInfo &info, int bufferIndex, const Box &box, const LaneArray &value);

  bool make(const Instr &instr, DType dtype, int64_t size, LaneArray &array);
  bool noMemory(const Instr &instr) {
    return fail(instr, ErrorCode::OutOfMemory, "the host has no memory for the lanes of a tile");
  }
  bool race(const Instr &instr, uint32_t earlier, int64_t element);
  bool fail(const Instr &instr, ErrorCode code, std::string message);
  int64_t index(int slot) const;
  /// "[1, 2]" of the element at a row-major offset.
  static std::string indexText(std::span<const int64_t> shape, int64_t offset);
  std::string valueName(const Value *value) const;

  LaunchState &launch;
  const PreparedKernel &kernel;
  std::vector<Slot> slots;
  std::vector<std::unique_ptr<SharedMemory>> shared;
  size_t sharedUsed = 0;
  uint64_t program = 0;
  uint32_t epoch = 1; ///< Of shared memory: barriers passed in this program, from 1.
  std::vector<BufferTraffic> issued;
  std::vector<Lanes> operandLanes; // Reused by each elementwise op.
};

} // namespace minic::interp
