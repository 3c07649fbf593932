// The format of histories: what was written is read unchanged.
#include "history.hpp"

#include <gtest/gtest.h>
#include <sstream>

namespace {

TEST(history, reads_what_it_writes)
{
    history::operation op{.number = 5,
                          .client = 2,
                          .tx = 3,
                          .what = history::action::acquire,
                          .by = history::maker::session,
                          .names = {"a", "b"},
                          .at_most = 50,
                          .at_least = 0,
                          .wait = 7,
                          .tick = 9,
                          .retry = true,
                          .keep_alive = true,
                          .of = 4,
                          .level = history::level::serializable,
                          .as = history::outcome::failed,
                          .called = {10, 1010}};
    op.result = history::result::yes;
    op.token = 12;
    op.before = 11;
    op.after = 13;
    op.until = 62;
    op.trust = 60;
    op.ledger = 2;
    op.begun = 14;
    op.ended = 16;
    op.is_kept = true;
    op.rows = {{"a", 12, 62}, {"b", 12, 62}};
    op.done = {20, 1020};
    std::istringstream in{
        history::head_line(
            {.allowed = {"57014", "57P01"}, .standby_missing = true, .has_crashes = true, .is_portable = true}, "1",
            2) +
        '\n' + history::call_line(op) + '\n' + history::done_line(op) + '\n'};
    const auto record = history::read(in);
    EXPECT_TRUE(record.standby_missing);
    EXPECT_TRUE(record.has_crashes);
    EXPECT_TRUE(record.is_portable);
    EXPECT_EQ(record.allowed, (std::vector<std::string>{"57014", "57P01"}));
    ASSERT_EQ(record.operations.size(), 1U);
    EXPECT_EQ(history::call_line(record.operations[0]), history::call_line(op));
    EXPECT_EQ(history::done_line(record.operations[0]), history::done_line(op));
}

TEST(history, drops_the_incomplete_line_of_a_killed_client)
{
    const std::string call = "call 1 client=1 do=look names=a at=1 wall=1\n";
    for (const auto *const torn : {"c", "call 2 client=2 do=acquire names=b", "done 7 result=yes token=12"}) {
        std::istringstream in{call + torn + "done 1 result=yes at=2 wall=2\n"};
        const auto record = history::read(in);
        ASSERT_EQ(record.operations.size(), 1U) << torn;
        EXPECT_EQ(record.operations[0].result, history::result::yes) << torn;
    }
}

TEST(history, rejects_what_it_cannot_read)
{
    for (const auto *const text : {"done 1 result=yes at=1 wall=1", "call 1 client=1 do=dance at=1 wall=1",
                                   "call 1 client=1 do=look", "nonsense"}) {
        std::istringstream in{text};
        EXPECT_THROW(history::read(in), std::runtime_error) << text;
    }
}

} // namespace
