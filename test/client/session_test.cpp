#include "session.hpp"

#include "literal.hpp"

#include <cstdlib>
#include <gtest/gtest.h>

using namespace shedlock;
using namespace shedlock::internal;
using namespace std::chrono_literals;

TEST(session_test, puts_its_defaults_before_what_is_given)
{
    EXPECT_EQ(with_defaults("dbname=app", 5s, true), "client_encoding=UTF8 fallback_application_name=shedlock "
                                                     "connect_timeout=5 target_session_attrs=read-write dbname=app");
    EXPECT_EQ(with_defaults("", 1500ms, false),
              "client_encoding=UTF8 fallback_application_name=shedlock connect_timeout=2 ");
    EXPECT_EQ(with_defaults("postgresql://h/db?user=u", 5s, false),
              "postgresql://h/db?client_encoding=UTF8&fallback_application_name=shedlock&connect_timeout=5&user=u");
    EXPECT_EQ(with_defaults("postgres://h/db", 5s, false),
              "postgres://h/db?client_encoding=UTF8&fallback_application_name=shedlock&connect_timeout=5");
}

TEST(session_test, leaves_to_the_environment_what_it_decides)
{
    ::setenv("PGCONNECT_TIMEOUT", "7", 1);
    ::setenv("PGTARGETSESSIONATTRS", "any", 1);
    EXPECT_EQ(with_defaults("", 5s, true), "client_encoding=UTF8 fallback_application_name=shedlock ");
    ::unsetenv("PGCONNECT_TIMEOUT");
    ::unsetenv("PGTARGETSESSIONATTRS");
}

TEST(session_test, says_the_servers_words_in_one_line)
{
    EXPECT_EQ(one_line("ERROR:  no\nDETAIL:  Because.\nHINT:  Do it.\n"), "no. Because. Do it");
    EXPECT_EQ(one_line("WARNUNG:  nein\n"), "nein");
    EXPECT_EQ(one_line("connection to server failed: Connection refused\n\tIs it running?\n"),
              "connection to server failed: Connection refused. Is it running?");
    EXPECT_EQ(one_line(""), "");
}

TEST(literal_test, writes_what_postgresql_reads)
{
    EXPECT_EQ(names_literal("{a}"), "{a}");
    EXPECT_EQ(names_literal({"a", "b\"c\\d", "", "{x,y}", "NULL"}), R"({"a","b\"c\\d","","{x,y}","NULL"})");
    EXPECT_EQ(interval_literal(90s), "90000000 microseconds");
    EXPECT_EQ(interval_literal(-1us), "-1 microseconds");
    EXPECT_EQ(timestamp_literal(std::chrono::sys_days{std::chrono::year{2026} / 11 / 21} + 6h + 7min + 8s + 9us),
              "2026-11-21 06:07:08.000009+00");
    EXPECT_EQ(timestamp_literal(std::chrono::sys_days{std::chrono::year{1969} / 12 / 31} + 23h),
              "1969-12-31 23:00:00.000000+00");
    EXPECT_THROW(text_literal("name", std::string_view{"a\0b", 3}), usage_error);
}
