#include "minic/CApiRuntime/HandleTable.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

using namespace minic;

namespace {

struct Counted final : HandleObject {
  explicit Counted(int &alive) : alive(alive) { ++alive; }
  ~Counted() override { --alive; }
  int &alive;
};

TEST(HandleTable, AnObjectStaysWhileItIsUsed) {
  int alive = 0;
  auto table = std::make_unique<HandleTable>();
  void *handle = table->insert(HandleKind::Buffer, std::make_unique<Counted>(alive));
  HandleFault fault;
  HandleTable::Slot *slot = table->pin(handle, HandleKind::Buffer, fault);
  ASSERT_TRUE(slot);
  EXPECT_TRUE(table->erase(handle, HandleKind::Buffer, fault));
  EXPECT_EQ(alive, 1);
  EXPECT_FALSE(table->pin(handle, HandleKind::Buffer, fault));
  EXPECT_EQ(fault, HandleFault::Destroyed);
  table->unpin(*slot);
  EXPECT_EQ(alive, 0);
}

TEST(HandleTable, PlacesAreUsedAgainUnderOtherHandles) {
  int alive = 0;
  auto table = std::make_unique<HandleTable>();
  HandleFault fault;
  std::vector<void *> old;
  for (int i = 0; i < 5000; ++i) { // More than a chunk holds.
    old.push_back(table->insert(HandleKind::Text, std::make_unique<Counted>(alive)));
    if (i % 2) {
      EXPECT_TRUE(table->erase(old.back(), HandleKind::Text, fault));
    }
  }
  EXPECT_EQ(alive, 2500);
  for (int i = 0; i < 5000; ++i) {
    HandleTable::Slot *slot = table->pin(old[size_t(i)], HandleKind::Text, fault);
    EXPECT_EQ(slot != nullptr, i % 2 == 0) << i;
    if (slot)
      table->unpin(*slot);
  }
}

TEST(HandleTable, HandlesOfAnotherEpoch) {
  int alive = 0;
  auto parent = std::make_unique<HandleTable>(0), child = std::make_unique<HandleTable>(1);
  HandleFault fault;
  void *handle = parent->insert(HandleKind::Device, std::make_unique<Counted>(alive));
  EXPECT_FALSE(child->pin(handle, HandleKind::Device, fault));
  EXPECT_EQ(fault, HandleFault::BeforeFork);
  child->insert(HandleKind::Device, std::make_unique<Counted>(alive));
  EXPECT_FALSE(child->pin(handle, HandleKind::Device, fault));
  EXPECT_EQ(fault, HandleFault::BeforeFork);
}

TEST(HandleTable, ThreadsThatDestroyWhatOthersUse) {
  auto table = std::make_unique<HandleTable>();
  for (int round = 0; round < 300; ++round) {
    int alive = 0;
    std::atomic<int> erased = 0;
    void *handle = table->insert(HandleKind::Event, std::make_unique<Counted>(alive));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        HandleFault fault;
        for (int i = 0; i < 20; ++i) {
          if (HandleTable::Slot *slot = table->pin(handle, HandleKind::Event, fault)) {
            EXPECT_EQ(static_cast<Counted *>(slot->object.get())->alive, 1);
            table->unpin(*slot);
          }
          erased += i == 10 && table->erase(handle, HandleKind::Event, fault);
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(erased, 1);
    EXPECT_EQ(alive, 0);
  }
}

} // namespace
