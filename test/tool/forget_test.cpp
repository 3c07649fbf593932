#include "scene.hpp"

#include <gtest/gtest.h>

using namespace shedlock::test;

TEST(forget, deletes_the_row_of_a_free_lock)
{
    ask("SELECT shedlock_release_token(" + literal(name()) + ", " + acquire() + ')');
    const auto seen = run({"shedlock", "forget", name()});
    EXPECT_EQ(seen.status, 0) << seen.err;
    EXPECT_EQ(run({"shedlock", "list", name()}).status, 1);
}

TEST(forget, warns_when_a_Java_client_ran_last)
{
    ask("INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES (" + literal(name()) +
        ", '2026-01-01', '2026-01-01', 'app-1')");
    const auto seen = run({"shedlock", "forget", name()});
    EXPECT_EQ(seen.status, 0);
    EXPECT_TRUE(seen.err.starts_with("shedlock: lock \"" + name() + "\" was last acquired by \"app-1\"")) << seen.err;
    EXPECT_NE(seen.err.find("restart the JVM"), std::string::npos) << seen.err;
}

TEST(forget, is_1_unless_the_lock_is_free_and_its_tick_in_the_past)
{
    const auto is_refused = [] {
        const auto seen = run({"shedlock", "forget", name()});
        EXPECT_EQ(seen.err,
                  "shedlock: lock \"" + name() +
                      "\" was not forgotten: there is no such row, it is not free, a transaction in progress has it, "
                      "or its last acquisition or tick is in the future\n");
        return seen.status == 1;
    };
    EXPECT_TRUE(is_refused()); // there is no row
    const auto token = acquire();
    EXPECT_TRUE(is_refused());
    EXPECT_EQ(state(), "held");
    ask("SELECT shedlock_release_token(" + literal(name()) + ", " + token + ')');
    ask("UPDATE shedlock SET last_tick = locked_at + interval '1 h' WHERE name = " + literal(name()));
    EXPECT_TRUE(is_refused());
    EXPECT_EQ(state(), "free");
}
