#include "scene.hpp"

#include <gtest/gtest.h>

using namespace shedlock::test;

TEST(forget, deletes_the_row_of_a_free_lock)
{
    ask("SELECT shedlock_release_token(" + literal(name()) + ", " + acquire() + ')');
    auto const seen = run({"shedlock", "forget", name()});
    EXPECT_EQ(seen.status, 0) << seen.err;
    EXPECT_EQ(run({"shedlock", "list", name()}).status, 1);
}

TEST(forget, is_1_for_a_lock_that_is_held_and_for_one_that_is_not_there)
{
    acquire();
    auto const held = run({"shedlock", "forget", name()});
    EXPECT_EQ(held.status, 1);
    EXPECT_EQ(held.err, "shedlock: lock \"" + name() + "\" was not forgotten: it is not free, or not there\n");
    EXPECT_EQ(state(), "held");
    EXPECT_EQ(run({"shedlock", "forget", name() + ".2"}).status, 1);
}
