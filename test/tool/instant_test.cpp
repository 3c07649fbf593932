#include "instant.hpp"

#include <gtest/gtest.h>

using shedlock::tool::to_instant;

namespace {

// 22:30 UTC on 20 November 2026, in microseconds since 1970.
constexpr std::int64_t evening = 1795213800'000000;

// Microseconds since 1970, or -1.
std::int64_t read(const std::string &text)
{
    const auto instant = to_instant(text);
    return instant ? instant->time_since_epoch().count() : -1;
}

} // namespace

TEST(instant, is_read_however_it_is_written)
{
    for (const auto *text :
         {"2026-11-20T22:30:00Z", "2026-11-20t22:30z", "2026-11-20 22:30:00+00:00", "2026-11-20T22:30:00,000000+00",
          "2026-11-21T04:00:00+05:30", "2026-11-20T17:00-0530", "@1795213800", "@1795213800.0"})
        EXPECT_EQ(read(text), evening) << text;
    EXPECT_EQ(read("1970-01-01T00:00:00Z"), 0);
    EXPECT_EQ(read("2024-02-29T23:59:59.5Z"), 1709251199'500000);
}

TEST(instant, has_microseconds_and_no_more)
{
    EXPECT_EQ(read("2026-11-20T22:30:00.1Z"), evening + 100000);
    EXPECT_EQ(read("2026-11-20T22:30:00.0000019Z"), evening + 1);
    EXPECT_EQ(read("@1795213800.0000019"), evening + 1);
    EXPECT_EQ(read("2026-11-20T22:29:59.999999999Z"), evening - 1);
}

TEST(instant, is_not_guessed)
{
    for (const auto *text : {"",
                             "now",
                             "2026-11-22",
                             "2026-11-22T10:00:00",
                             "2026-02-30T10:00:00Z",
                             "2025-02-29T10:00:00Z",
                             "2026-13-01T10:00:00Z",
                             "2026-11-22T24:00:00Z",
                             "2026-11-22T10:60:00Z",
                             "2026-11-22T10:00:60Z",
                             "2026-11-22T10:00:00.Z",
                             "2026-11-22T10:00.5Z",
                             "2026-11-22T10:00:00+24:00",
                             "2026-11-22T10:00:00Zulu",
                             " 2026-11-22T10:00:00Z",
                             "2026-11-22T10:00:00Z\n",
                             "26-11-22T10:00:00Z",
                             "1795341600",
                             "@",
                             "@-1",
                             "@1e9",
                             "@100000000000"})
        EXPECT_EQ(read(text), -1) << text;
    EXPECT_EQ(read("@1." + std::string(100'000, '0')), -1);
}

TEST(instant, has_a_year_of_four_digits)
{
    using namespace std::chrono;
    EXPECT_EQ(shedlock::tool::to_text(sys_days{year{1} / 1 / 1}), "0001-01-01T00:00:00Z");
}
