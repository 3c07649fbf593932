// Which functions the client finds: the extension's or the portable edition's, in databases that these tests create.
#include "fixture.hpp"

#include <cstdlib>

namespace {

const std::string database = "edition";

std::string ask(const std::string &sql)
{
    pqxx::connection direct{"dbname=" + database};
    pqxx::nontransaction transaction{direct};
    const auto rows = transaction.exec(sql);
    return rows.empty() || rows[0][0].is_null() ? "" : rows[0][0].c_str();
}

} // namespace

class edition_test : public with_server {
protected:
    void SetUp() override
    {
        if (!server::connection().empty())
            GTEST_SKIP() << "a pooler's sessions have the search_path that was set when they began";
        server::ask("CREATE DATABASE " + database);
    }
    void TearDown() override { server::ask("DROP DATABASE IF EXISTS " + database + " WITH (FORCE)"); }

    static void install_portable(const std::string &schema = "public")
    {
        ask("CREATE SCHEMA IF NOT EXISTS \"" + schema + '"');
        const auto psql = "psql -Xq -v ON_ERROR_STOP=1 -d " + database + " -c 'SET search_path = \"" + schema +
                          "\"' -f " SHEDLOCK_SOURCE "/portable/shedlock.sql";
        ASSERT_EQ(std::system(psql.c_str()), 0);
    }

    // The result of a call by a new client.
    std::string attempt(shedlock::edition *found = nullptr)
    try {
        auto mine = client("dbname=" + database);
        const bool granted = mine.try_acquire(name, {.at_most = 1min}).has_value();
        if (found)
            *found = mine.edition();
        return granted ? "granted" : "refused";
    } catch (const shedlock::usage_error &failure) {
        return failure.what();
    }
};

TEST_F(edition_test, is_the_portable_one_if_its_schema_is_on_search_path)
{
    install_portable("else where");
    const auto text = attempt();
    EXPECT_NE(text.find("CREATE EXTENSION shedlock"), std::string::npos) << text;
    EXPECT_NE(text.find("must be on search_path, which is \"$user\", public"), std::string::npos) << text;
    ask("ALTER DATABASE " + database + " SET search_path = public, \"else where\"");
    shedlock::edition found;
    EXPECT_EQ(attempt(&found), "granted");
    EXPECT_EQ(found.name, "portable");
    EXPECT_EQ(found.version, "1.0");
    EXPECT_EQ(ask("SELECT count(*) FROM \"else where\".shedlock"), "1");
}

TEST_F(edition_test, is_the_extension_wherever_that_is)
{
    install_portable();
    ask("CREATE SCHEMA \"else where\"");
    ask("CREATE EXTENSION shedlock SCHEMA \"else where\"");
    shedlock::edition found;
    EXPECT_EQ(attempt(&found), "granted");
    EXPECT_EQ(found.name, "extension");
    EXPECT_EQ(ask("SELECT count(*) FROM \"else where\".shedlock"), "1");
}

TEST_F(edition_test, releases_with_any_detail_in_a_database_of_another_encoding)
{
    for (const std::string encoding : {"LATIN1", "SQL_ASCII"}) {
        server::ask("DROP DATABASE " + database);
        server::ask("CREATE DATABASE " + database + " TEMPLATE template0 LOCALE 'C' ENCODING " + encoding);
        install_portable();
        ask("SELECT shedlock_keep_history()");
        auto mine = client("dbname=" + database);
        for (const auto *const detail : {"5 €", "ü\xFF"})
            EXPECT_NO_THROW(
                mine.try_acquire(name, {.at_most = 1min}).value().release(shedlock::outcome::failed, detail));
        EXPECT_EQ(ask("SELECT string_agg(detail, ', ' ORDER BY token) FROM shedlock_history"),
                  encoding == "LATIN1" ? "5 \\xE2\\x82\\xAC, \\xC3\\xBC\\xFF" : "5 €, ü\\xFF");
    }
}

TEST_F(edition_test, is_of_no_use_in_another_version)
{
    install_portable();
    for (const auto &[version, advice] :
         {std::pair{"0.9", "run the shedlock.sql of a newer version"}, {"2.0", "install a newer client"}}) {
        ask("CREATE OR REPLACE FUNCTION shedlock_version(OUT edition text, OUT version text) LANGUAGE sql IMMUTABLE"
            " AS $$ SELECT 'portable', '" +
            std::string{version} + "' $$");
        const auto text = attempt();
        EXPECT_NE(text.find(advice), std::string::npos) << text;
    }
}

// Locks and tokens stay, and no call fails.
TEST_F(edition_test, may_become_the_extension_while_clients_work)
{
    install_portable();
    auto mine = client("dbname=" + database);
    auto held = mine.try_acquire(name, {.at_most = 1h, .keep_alive = true});
    ASSERT_TRUE(held);
    EXPECT_EQ(mine.edition().name, "portable");
    {
        std::atomic<int> granted = 0;
        std::vector<std::jthread> crowd;
        for (int i = 0; i < 4; ++i)
            crowd.emplace_back([&, i](const std::stop_token &stop) {
                while (!stop.stop_requested())
                    EXPECT_NO_THROW(granted += mine.run(name + std::to_string(i), {.at_most = 1min},
                                                        [](auto &lock) { lock.extend(2min); }));
            });
        EXPECT_TRUE(server::comes_true([&] { return granted > 20; }));
        ask("CREATE EXTENSION shedlock");
        EXPECT_TRUE(server::comes_true([&, before = granted.load()] { return granted > before + 20; }));
    }
    EXPECT_EQ(mine.edition().name, "extension");
    for (int i = 0; i < 3; ++i)
        let_pass(mine, 21min);
    EXPECT_TRUE(held->held());
    EXPECT_FALSE(client("dbname=" + database).try_acquire(name, {.at_most = 1min}));
    const auto token = std::to_string(number(held->token()));
    EXPECT_EQ(ask("SELECT token FROM shedlock_locks WHERE name = '" + name + '\''), token);
    EXPECT_NO_THROW(held->release());
    EXPECT_EQ(heard.texts(), "");
}
