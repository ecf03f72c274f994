// What runs ops: the body of a kernel, or an instance of a role. One agent stands for all threads that run the same text.
#pragma once

#include "Cta.h"

#include <deque>

namespace minic::interp {

class Agent {
public:
  Agent(Cta &cta, uint16_t number);
  /// Gets ready to run the whole kernel, or an instance of a role that `outer` has come to.
  void startKernel();
  void startRole(const Instr &role, int64_t instance, const Agent &outer);

  enum class Turn {
    Done,
    Waits, ///< It got on and came to something that it must wait for.
    Stuck, ///< It is still waiting.
    Failed ///< The error is reported.
  };
  Turn resume();
  bool isDone() const { return frames.empty(); }

  // For messages: "role 'load' 0", the op it waits in (or null), and the mbarrier of that, and the op that reads a cell.
  std::string name() const;
  const Instr *waitsIn() const;
  const Mbarrier &awaited(const Instr &wait) const;
  const Operation *readerOf(int memory, int64_t cell) const;

private:
  struct Slot {
    LaneArray lanes;
    int memory = -1;  ///< Index in the CTA: of shared memory, or of the first of an array of mbarriers.
    int64_t cell = 0; ///< Of shared memory: the first cell of a view.
  };
  /// A block that is being run.
  struct Frame {
    const Body *body;
    size_t next = 0;
    int64_t at = 0, hi = 0, step = 0; ///< Of a loop.
    const Instr *loop = nullptr;
    std::vector<Slot> carried; ///< Of a loop: what the next trip starts from.
  };
  enum class Outcome {
    Next,    ///< The instruction is done.
    Entered, ///< Another frame, or another place in this one, goes on.
    Blocked,
    Failed
  };
  /// Shared memory that a wgmma or a tma_store reads until a wait retires it.
  struct AsyncReads {
    const Instr *instr;
    struct Cell {
      int32_t memory, cell;
    };
    std::vector<Cell> cells;
  };

  void start(const Body &body);
  /// Runs until only `depth` frames are left.
  Outcome run(size_t depth);
  /// A block that never waits.
  bool runBody(const Body &body);
  Outcome exec(const Instr &instr);
  Outcome forLoop(const Instr &instr);
  Outcome startTrip();
  Outcome endBlock();
  void finishInstr();
  Outcome mbarrierWait(const Instr &instr);
  /// At the end of the text: nothing may be left in flight.
  bool checkEnd();

  // Everything below gives false after an error, which is then reported.
  bool execSimple(const Instr &instr);
  bool elementwise(const Instr &instr);
  bool programId(const Instr &instr);
  bool iota(const Instr &instr);
  bool inBounds(const Instr &instr);
  bool broadcast(const Instr &instr);
  bool spread(const Instr &instr);
  bool role(const Instr &instr);
  bool reduce(const Instr &instr);
  bool combine(const Instr &instr, const ReduceInfo &info, std::vector<LaneArray> &lower, const std::vector<LaneArray> &upper,
               int64_t count);
  bool reduceDigit(const Instr &instr, const ReduceInfo &info, std::vector<LaneArray> &values, int64_t outer, int64_t extent,
                   int64_t inner);
  bool dot(const Instr &instr, const LaneArray &acc);
  template <typename T>
  bool packOperand(const Instr &instr, unsigned which, const DotOperand &operand, std::vector<T> &packed,
                   std::vector<uint8_t> &absent);
  template <typename T> bool packShared(const Instr &instr, unsigned which, const DotOperand &operand, std::vector<T> &packed);
  template <typename T> bool dotAs(const Instr &instr, const DotInfo &info, const LaneArray &acc);
  bool undefined(const Instr &instr);
  bool cpAsync(const Instr &instr);
  bool ldMatrix(const Instr &instr);
  bool wgmma(const Instr &instr);
  bool wgmmaWait(const Instr &instr);
  bool extractTile(const Instr &instr);

  // Global memory.
  bool load(const Instr &instr);
  bool store(const Instr &instr);
  bool loadLanes(const Instr &instr, const AccessInfo &info, LaneArray &result);
  bool loadBox(const Instr &instr, const AccessInfo &info, int bufferIndex, size_t firstIndex, LaneArray &result);
  bool storeBox(const Instr &instr, const AccessInfo &info, int bufferIndex, size_t firstIndex, const LaneArray &value);
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

  // Shared memory.
  bool allocShared(const Instr &instr);
  bool stage(const Instr &instr);
  bool sharedView(const Instr &instr);
  bool sharedStore(const Instr &instr);
  bool sharedLoad(const Instr &instr);
  /// `landing` is when the write of a tma_load happens; a store happens now, each element by the thread that holds it.
  bool writeShared(const Instr &instr, const Slot &to, const SharedInfo &info, const LaneArray &value, const Stamp *landing);
  /// `async`: an asynchronous read, which keeps the cells until it is retired.
  bool readShared(const Instr &instr, const Slot &from, const SharedInfo &info, AsyncReads *async, LaneArray &result);
  std::string waitFor(const Stamp &copy) const;
  Diagnostic unordered(const Instr &instr, const Stamp &earlier, const std::string &place) const;
  bool sharedFault(const Instr &instr, const SharedFault &fault, int memory, int64_t cell, const std::string &where);

  // What goes on asynchronously.
  bool mbarrierInit(const Instr &instr);
  bool mbarrierExpect(const Instr &instr);
  bool mbarrierArrive(const Instr &instr);
  bool arrive(const Instr &instr, Mbarrier &mbarrier, int64_t arrivals, bool all);
  bool checkStart(const Instr &instr, const TmaInfo &info);
  bool tmaLoad(const Instr &instr);
  bool clusterStore(const Instr &instr);
  /// What comes by itself into memory and counts at the mbarrier of operand `which`.
  bool land(const Instr &instr, unsigned which, int64_t bytes, const Slot &to, const SharedInfo &info, const LaneArray &value);
  bool tmaStore(const Instr &instr);
  void hold(AsyncReads &reads, int memory, int64_t cell);
  /// Ends all but the latest `pending` groups; `thread` has waited for them.
  void retireReads(std::deque<AsyncReads> &groups, int64_t pending, int32_t thread);

  /// A ring position: number n mod stages, on lap n div stages.
  struct Position {
    int64_t number = 0, lap = 0;
  };
  bool position(const Instr &instr, int slot, int64_t stages, Position &result);
  /// The mbarrier of operands `which` and `which + 1`, used by `thread`; null after an error.
  Mbarrier *mbarrierAt(const Instr &instr, unsigned which, int32_t thread, Position &at);

  int32_t writerOf(const ThreadMap *threads, int64_t element) const {
    return firstThread + (threads ? threads->writer[size_t(element)] : 0);
  }
  int32_t readerOf(const ThreadMap *threads, int64_t element) const {
    int32_t reader = threads ? threads->reader[size_t(element)] : manyThreads;
    return reader < 0 ? reader : firstThread + reader;
  }
  /// Whoever runs an op that all threads of the agent run.
  int32_t allThreads() const { return oneThread ? firstThread : manyThreads; }

  bool make(const Instr &instr, DType dtype, int64_t size, LaneArray &array);
  bool noMemory(const Instr &instr) {
    return fail(instr, ErrorCode::OutOfMemory, "the host has no memory for the lanes of a tile");
  }
  bool fail(const Instr &instr, ErrorCode code, std::string message);
  /// An error that the caller completes and reports.
  Diagnostic fault(const Instr &instr, ErrorCode code, std::string message) const;
  bool report(Diagnostic error);
  int64_t index(int slot) const;
  /// "[1, 2]" of the element at a row-major offset.
  std::string valueName(const Value *value) const;

  Cta &cta;
  LaunchState &launch;
  const PreparedKernel &kernel;
  AgentTime time;
  const Operation *roleOp = nullptr; ///< Null: the kernel's body.
  int64_t instance = 0, warps = 1;
  int32_t firstThread = 0;
  bool oneThread = false;              ///< Only the first of its threads is active.
  bool moved = false, blocked = false; ///< In and after its latest turn.
  std::vector<Slot> slots;
  std::vector<Frame> frames;
  std::deque<AsyncReads> wgmmas, tmaStores;
  uint32_t copyGroups = 0, copiesStarted = 0; ///< Groups of cp_async so far; the last one that has copies.
  std::vector<Lanes> operandLanes;            // Reused by each elementwise op.
};

} // namespace minic::interp
