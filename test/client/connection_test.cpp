// The connection: which parameters it adds to the application's, what it reads, and when its waits end.
#include "connection.hpp"

#include "proxy.hpp"
#include "server.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace shedlock;
using namespace shedlock::internal;
using namespace std::chrono_literals;

namespace {

reply asked(connection &by, const std::string &sql, const fields &values = {})
{
    return by.ask(sql, values, clock::now() + 1h, {});
}

std::string setting(const std::string &how, const char *name)
{
    connection one{how, 1min, true};
    return asked(one, "SELECT pg_catalog.current_setting($1)", {name}).rows.at(0)[0].value();
}

template <typename Error> std::string message(connection &by, const std::string &sql)
{
    try {
        asked(by, sql);
    } catch (const Error &failure) {
        return failure.what();
    }
    return "no error of that type";
}

} // namespace

TEST(connection_test, puts_its_defaults_before_what_is_given)
{
    EXPECT_EQ(setting("", "application_name"), "shedlock");
    EXPECT_EQ(setting("application_name=mine", "application_name"), "mine");
    EXPECT_EQ(setting("postgresql://?application_name=mine", "application_name"), "mine");
    EXPECT_EQ(setting("", "client_encoding"), "UTF8");
    EXPECT_EQ(setting("postgres:///", "client_encoding"), "UTF8");
    EXPECT_EQ(setting("client_encoding=LATIN1", "client_encoding"), "UTF8") << "names are sent as UTF-8";
    const auto read_only = std::string{"options='-c default_transaction_read_only=on'"};
    EXPECT_THROW(setting(read_only, "application_name"), connection_error) << "it is for writing";
    EXPECT_NO_THROW(setting(read_only + " target_session_attrs=any", "application_name"));
    EXPECT_NO_THROW((connection{read_only, 1min, false}));
}

TEST(connection_test, leaves_to_the_environment_what_it_decides)
{
    ::setenv("PGAPPNAME", "mine", 1);
    ::setenv("PGTARGETSESSIONATTRS", "any", 1);
    EXPECT_EQ(setting("options='-c default_transaction_read_only=on'", "application_name"), "mine");
    ::setenv("PGTARGETSESSIONATTRS", "", 1);
    EXPECT_NO_THROW(setting("", "application_name")) << "an empty variable counts as not set";
    ::unsetenv("PGAPPNAME");
    ::unsetenv("PGTARGETSESSIONATTRS");
}

TEST(connection_test, keeps_an_idle_connection_alive_unless_that_was_decided)
{
    const auto host = "host=localhost ";
    const auto idle = [&](const std::string &more) {
        const connection one{host + more, 1min, true};
        int seconds = 0;
        socklen_t size = sizeof seconds;
        EXPECT_EQ(::getsockopt(one.socket(), IPPROTO_TCP, TCP_KEEPIDLE, &seconds, &size), 0);
        return seconds;
    };
    EXPECT_EQ(idle(""), 60);
    EXPECT_EQ(idle("keepalives_idle=77"), 77);
    EXPECT_GT(idle("keepalives_count=5"), 60) << "the system's own";
}

TEST(connection_test, waits_for_a_silent_host)
{
    proxy network;
    network.hold_newcomers();
    const auto begin = clock::now();
    EXPECT_THROW((connection{network.connection(), 1s, true}), connection_error);
    EXPECT_GE(clock::now() - begin, 1s);
    network.cut();
}

TEST(connection_test, leaves_to_a_service_file_what_it_decides)
{
    const auto file = std::filesystem::temp_directory_path() / ("shedlock." + std::to_string(::getpid()));
    std::ofstream{file} << "[reader]\noptions=-c default_transaction_read_only=on\ntarget_session_attrs=read-only\n"
                           "[any]\noptions=-c default_transaction_read_only=on\ntarget_session_attrs=any\n"
                           "[hurries]\nconnect_timeout=2\n";
    ::setenv("PGSERVICEFILE", file.c_str(), 1);
    EXPECT_EQ(setting("service=reader", "transaction_read_only"), "on");
    EXPECT_THROW(setting("service=any", "transaction_read_only"), connection_error) << "it counts as not set";
    proxy network;
    network.hold_newcomers();
    auto connecting = std::async(std::launch::async, [&] {
        EXPECT_THROW((connection{network.connection() + " service=hurries", 24h, true, true}), connection_error);
    });
    EXPECT_EQ(connecting.wait_for(server::at_last), std::future_status::ready);
    network.cut();
    connecting.get();
    ::unsetenv("PGSERVICEFILE");
    std::filesystem::remove(file);
}

TEST(connection_test, says_the_servers_words_in_one_line)
{
    connection one{"", 1min, true};
    EXPECT_EQ(message<error>(one, "DO $$ BEGIN RAISE 'no' USING DETAIL = 'Because.', HINT = 'Do it.'; END $$"),
              "no. Because. Do it");
    EXPECT_EQ(message<error>(one, "DO $$ BEGIN RAISE 'a\n\tb'; END $$"), "a. b");
    const auto said = asked(one, "DO $$ BEGIN RAISE WARNING 'one'; RAISE WARNING 'two' USING HINT = 'Do it.'; END $$");
    EXPECT_EQ(said.notice_text(), "one; two. Do it");
    EXPECT_EQ(asked(one, "SELECT 1").notice_text(), "") << "of this request only";
}

TEST(connection_test, tells_null_from_empty)
{
    connection one{"", 1min, true};
    const auto rows = asked(one, "SELECT $1::text, $2::text, $2::text || 'x'", {std::nullopt, ""}).rows;
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0], (fields{std::nullopt, "", "x"}));
}

TEST(connection_test, sends_and_reads_more_than_fits_into_a_buffer)
{
    proxy network;
    connection one{network.connection(), 1min, true};
    const std::string long_text(20'000'000, 'x');
    EXPECT_TRUE(asked(one, "SELECT $1::text", {long_text}).rows.at(0)[0] == long_text);
}

// Rows may have been sent before the commit fails.
TEST(connection_test, believes_no_rows_before_the_commit)
{
    connection one{"", 1min, true};
    asked(one, "CREATE TEMP TABLE once (one int UNIQUE DEFERRABLE INITIALLY DEFERRED)");
    EXPECT_NE(message<error>(one, "INSERT INTO once VALUES (1), (1) RETURNING one").find("once"), std::string::npos);
    EXPECT_EQ(asked(one, "SELECT count(*) FROM once").rows.at(0)[0], "0");
}

TEST(connection_test, waits_no_longer_than_its_limit)
{
    connection late{"", 1min, true};
    const auto begin = clock::now();
    EXPECT_THROW(late.ask("SELECT pg_catalog.pg_sleep(3600)", {}, begin + 300ms, {}), reply_lost);
    connection stopped{"", 1min, true};
    std::stop_source stop;
    stop.request_stop();
    EXPECT_THROW(stopped.ask("SELECT pg_catalog.pg_sleep(3600)", {}, begin + 1h, stop.get_token()), reply_lost);
}

TEST(connection_test, notices_that_it_was_terminated)
{
    connection one{"application_name=doomed", 1min, true};
    EXPECT_TRUE(one.is_open());
    server::ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'doomed'");
    EXPECT_TRUE(server::comes_true([&] { return !one.is_open(); }));
    connection other{"application_name=doomed", 1min, true};
    EXPECT_NE(message<reply_lost>(other, "SELECT pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid())")
                  .find("terminating connection due to administrator command"),
              std::string::npos);
}
