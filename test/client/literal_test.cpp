#include "literal.hpp"

#include <gtest/gtest.h>

using namespace shedlock;
using namespace shedlock::internal;
using namespace std::chrono_literals;

TEST(literal_test, writes_what_postgresql_reads)
{
    EXPECT_EQ(names_literal("{a}"), "{a}");
    EXPECT_EQ(names_literal({"a", "b\"c\\d", "", "{x,y}", "NULL"}), R"({"a","b\"c\\d","","{x,y}","NULL"})");
    EXPECT_EQ(array_literal({"{a}"}), R"({"{a}"})");
    EXPECT_EQ(interval_literal(90s), "90000000 microseconds");
    EXPECT_EQ(interval_literal(-1us), "-1 microseconds");
    EXPECT_EQ(token_literal(token{-1}), "-1");
    EXPECT_EQ(details::sql::constant(std::string{"a b"}), "'a b'::pg_catalog.text");
    EXPECT_EQ(details::sql::detail("it failed"), ", detail => 'it failed'::pg_catalog.text");
    EXPECT_EQ(details::sql::detail(""), "") << "an older server does not know the argument";
    EXPECT_THROW(text_literal("name", std::string_view{"a\0b", 3}), usage_error);
}
