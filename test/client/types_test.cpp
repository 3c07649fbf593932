// The types that both headers share are the same in every program and library. Built with -fvisibility=hidden, and
// linked with the shared library.
#include "server.hpp"
#include "types_plugin.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <shedlock/pqxx.hpp> // both in one source file
#include <shedlock/shedlock.hpp>
#include <typeinfo>

using namespace std::chrono_literals;

namespace {

class types_test : public testing::Test {
protected:
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    shedlock::client locks{server::connection(), {.timeout = 1min}};
    const shedlock::token nobodys{1};
};

class plugin {
public:
    plugin() : library_{::dlopen(TYPES_PLUGIN, RTLD_NOW | RTLD_LOCAL)}
    {
        if (!library_)
            throw std::runtime_error{::dlerror()};
    }
    ~plugin() { ::dlclose(library_); }
    plugin(const plugin &) = delete;
    plugin &operator=(const plugin &) = delete;
    template <class Function> Function *find(const char *symbol) const
    {
        return reinterpret_cast<Function *>(::dlsym(library_, symbol));
    }

private:
    void *library_;
};

} // namespace

TEST_F(types_test, an_error_of_the_library_is_caught_by_its_type)
{
    EXPECT_THROW(locks.release(name, nobodys), shedlock::lock_lost);
    EXPECT_THROW((void) locks.try_acquire(name, {}), shedlock::usage_error);
    try {
        locks.release(name, nobodys);
        FAIL() << "it is not held";
    } catch (const shedlock::error &failure) {
        EXPECT_EQ(failure.sqlstate(), "SL001");
        EXPECT_EQ(dynamic_cast<const shedlock::connection_error *>(&failure), nullptr);
        EXPECT_NE(dynamic_cast<const shedlock::lock_lost *>(&failure), nullptr);
        EXPECT_EQ(&typeid(failure), &typeid(shedlock::lock_lost)) << "not every C++ library compares the names";
    }
}

TEST_F(types_test, an_error_can_be_caught_in_a_plugin_and_thrown_out_of_one)
{
    const plugin loaded;
    auto *const catches = loaded.find<catches_lock_lost>("catches");
    auto *const throws = loaded.find<throws_lock_lost>("throws");
    auto *const type = loaded.find<type_of_lock_lost>("type");
    ASSERT_TRUE(catches && throws && type);
    EXPECT_EQ(type(), &typeid(shedlock::lock_lost));
    EXPECT_TRUE(catches(locks, name)) << "thrown by the library, caught in the plugin";
    EXPECT_THROW(throws(locks, name), shedlock::lock_lost) << "thrown by the plugin, caught in the program";
    EXPECT_THROW(throws(locks, name), shedlock::error);
}

TEST_F(types_test, both_headers_lock_the_same_names_and_pqxx_uses_a_clients_lock)
{
    pqxx::connection db{server::connection()};
    auto mine = locks.try_acquire(name, {.at_most = 1min});
    EXPECT_FALSE(shedlock::try_acquire(db, name, {.at_most = 1min}));
    {
        pqxx::work tx{db};
        EXPECT_NO_THROW(shedlock::guard(*mine, tx));
        tx.commit();
    }
    const auto number = mine->detach();
    shedlock::pqxx_lock taken_over{db, name, number};
    taken_over.release();
    EXPECT_EQ(server::last_outcome(name), "done");
}
