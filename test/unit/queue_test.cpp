// The queues without a server: behaviour that SQL cannot show. Sessions take turns, so nothing is locked.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "queue.cpp" // for its internals

using namespace shedlock;

namespace {

uint64 random_number = 0; // what pg_strong_random returns
std::set<Latch *> woken;

uint64 mixed(uint64 number)
{
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
    number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
    return number ^ (number >> 31);
}

} // namespace

// The server functions and variables that the queue uses.
extern "C" {
int MaxBackends = 100;
Oid MyDatabaseId = 1;
Latch *MyLatch = nullptr;
MemoryContext TopTransactionContext = nullptr;
pg_prng_state pg_global_prng_state;

void LWLockInitialize(LWLock *, int)
{
}

bool LWLockAcquire(LWLock *, LWLockMode)
{
    return true;
}

void LWLockRelease(LWLock *)
{
}

void SetLatch(Latch *latch)
{
    woken.insert(latch);
}

void *palloc(Size size)
{
    return std::malloc(size);
}

void *MemoryContextAlloc(MemoryContext, Size size)
{
    return std::malloc(size);
}

bool pg_strong_random(void *where, size_t size)
{
    std::memcpy(where, &random_number, size);
    return true;
}

uint64 pg_prng_uint64(pg_prng_state *)
{
    return 0;
}

uint64 hash_bytes_extended(const unsigned char *bytes, int size, uint64 seed)
{
    for (int i = 0; i < size; i++)
        seed = mixed(seed + bytes[i] + 1);
    return seed;
}
}

namespace {

constexpr Oid table = 16384;

queue::key key_of(const std::string &name)
{
    return queue::key_of(table, {nullptr, name, 0});
}

std::vector<queue::key> keys(const std::string &prefix, int count)
{
    std::vector<queue::key> all;
    for (int i = 0; i < count; i++)
        all.push_back(key_of(prefix + std::to_string(i)));
    return all;
}

class queue_test : public testing::Test {
protected:
    void SetUp() override { start_server(1); }

    void start_server(uint64 chance)
    {
        random_number = chance;
        memory_.assign(queue::size(), '\0');
        queue::initialize(memory_.data(), 0);
        queue::use(memory_.data());
        woken.clear();
    }

private:
    std::vector<char> memory_;
};

class session {
public:
    explicit session(const std::vector<queue::key> &what)
    {
        MyLatch = &latch_;
        queue::enter(what);
        places_ = queue::mine;
        count_ = queue::mine_count;
    }
    bool is_queued() const { return count_ > 0; }
    bool was_woken() const { return woken.contains(const_cast<Latch *>(&latch_)); }
    template <typename Work> void work(Work does)
    {
        queue::mine = places_;
        queue::mine_count = count_;
        does();
    }

private:
    Latch latch_{};
    queue::ticket *places_;
    size_t count_;
};

} // namespace

TEST_F(queue_test, a_session_that_waits_for_one_lock_always_finds_a_place)
{
    int places = 0;
    for (int count : {1001, 100, 10, 2})
        for (int i = 0; i < 5000 && session{keys("several", count)}.is_queued(); i++)
            places += count;
    EXPECT_GT(places, 8180);
    EXPECT_FALSE(session{keys("several", 2)}.is_queued());
    for (int i = 0; i < MaxBackends; i++)
        EXPECT_TRUE(session{{key_of("single")}}.is_queued());
}

TEST_F(queue_test, nobody_can_know_which_names_share_a_bucket)
{
    std::vector<std::string> names;
    for (int i = 0; names.size() < 1000; i++)
        if (const auto name = std::to_string(i); key_of(name) % queue::bucket_count == 0)
            names.push_back(name);
    start_server(2);
    std::map<uint64, int> buckets;
    for (const auto &name : names)
        buckets[key_of(name) % queue::bucket_count]++;
    for (const auto &[bucket, count] : buckets)
        EXPECT_LT(count, 20) << bucket;
}

TEST_F(queue_test, nobody_can_know_the_bucket_of_a_wait_id)
{
    const auto key = queue::key_of_wait(7);
    start_server(2);
    EXPECT_NE(queue::key_of_wait(7), key);
}

TEST_F(queue_test, wakes_the_first)
{
    session first{{key_of("a")}}, second{{key_of("a")}}, other{{key_of("b")}};
    EXPECT_TRUE(queue::wake(key_of("a")));
    EXPECT_TRUE(first.was_woken());
    EXPECT_FALSE(second.was_woken());
    EXPECT_FALSE(other.was_woken());
}

TEST_F(queue_test, a_session_that_gives_up_wakes_the_next)
{
    session first{{key_of("a")}}, second{{key_of("a")}};
    first.work([] { queue::leave(); });
    EXPECT_TRUE(second.was_woken());
}

TEST_F(queue_test, a_session_that_takes_the_lock_wakes_nobody)
{
    session first{{key_of("a")}}, second{{key_of("a")}};
    queue::wake(key_of("a"));
    first.work([] {
        EXPECT_TRUE(queue::was_woken(0));
        queue::satisfy(0);
        queue::leave();
    });
    EXPECT_FALSE(second.was_woken());
}
