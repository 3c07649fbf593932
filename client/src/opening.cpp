#include "opening.hpp"

#include "exit.hpp"
#include "message.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <libpq-fe.h>
#include <memory>
#include <poll.h>

namespace shedlock::internal {

namespace {

using settings = std::unique_ptr<PQconninfoOption, freed<PQconninfoFree>>;
using attempt = std::unique_ptr<pg_conn, freed<PQfinish>>;

// A function may give another string the next time, and passwords that it gives must not appear in messages.
void require_parsable(const std::string &how, bool is_quotable)
{
    if (!is_connection_string(how))
        return;
    char *why = nullptr;
    const settings parsed{PQconninfoParse(how.c_str(), &why)};
    const std::unique_ptr<char, freed<PQfreemem>> owned{why};
    if (!parsed && !is_quotable)
        throw connection_error{
            "the connection string cannot be parsed (it may contain a password, so it is not shown)"};
    if (!parsed && why)
        throw usage_error{"cannot parse the connection string: " + one_line(why), "22023"};
}

constexpr const char *keepalives[]{"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"};

std::string given(const settings &all, std::string_view keyword)
{
    for (const auto *one = all.get(); one && one->keyword; ++one)
        if (one->keyword == keyword && one->val)
            return one->val;
    return "";
}

// The settings that libpq gets from the string, PG* variables and service files. The invalid sslmode keeps libpq from
// connecting, and the password keeps it from searching the password file.
settings resolved(const char *how)
{
    const std::array<const char *, 4> names{"dbname", "password", "sslmode"}, values{how, "none", "none"};
    const attempt unconnected{PQconnectStartParams(names.data(), values.data(), 1)};
    return settings{PQconninfo(unconnected.get())};
}

// "any" is also libpq's own default, so it counts only if the variable or the string says it. In a service file it
// cannot be distinguished from the default.
bool says_which_servers(const settings &all, const char *how)
{
    const auto which = given(all, "target_session_attrs");
    if (which != "any")
        return !which.empty();
    return std::getenv("PGTARGETSESSIONATTRS") ||
           !given(settings{PQconninfoParse(how, nullptr)}, "target_session_attrs").empty();
}

auto commas(const std::string &list)
{
    return std::count(list.begin(), list.end(), ',');
}

bool is_ready(const pg_conn *one, short events, clock::time_point until)
{
    pollfd socket{PQsocket(one), events, 0};
    for (; clock::now() < until; socket.revents = 0)
        if (::poll(&socket, 1,
                   static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(limited_wait(until)).count())) > 0)
            return true;
    return false;
}

// libpq reports the SQLSTATE of a failed connection only in verbose mode, which can be set only after PQconnectStart.
// That ignores connect_timeout, so libpq would never go on from a silent host to the next. So the first attempt uses
// PQconnectdb, and a second one, this, only asks for the SQLSTATE.
std::string ask_for_sqlstate(const char *const *names, const char *const *values, clock::time_point until)
{
    const attempt again{PQconnectStartParams(names, values, 1)};
    PQsetErrorVerbosity(again.get(), PQERRORS_VERBOSE);
    auto next = PQstatus(again.get()) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
    while (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
        if (!is_ready(again.get(), next == PGRES_POLLING_READING ? POLLIN : POLLOUT, until))
            return "";
        next = PQconnectPoll(again.get());
    }
    return sqlstate_in(PQerrorMessage(again.get()));
}

// Whether the next attempt may succeed although nobody changes anything: there is no server, it starts or stops, or it
// has no connection left. PgBouncer has 08P01 for everything, and its messages are always in English.
bool may_end(std::string_view state, std::string_view message)
{
    const auto says = [&](std::string_view words) { return message.find(words) != message.npos; };
    if (state == "08P01")
        return says("query_wait_timeout") || says("server_login_retry") || says("client_conn") ||
               says("cannot connect to server") || says("client_login_timeout") || says("server conn") ||
               says("shutting down");
    return state.empty() || state.starts_with("08") || state.starts_with("53") || state.starts_with("57P");
}

// Until an address was tried, the message may quote any part of the string: where a password is not quoted as it must
// be, libpq takes the rest of it for a host or a port.
std::string message_of(const pg_conn *failed, bool is_quotable)
{
    const auto message = one_line(PQerrorMessage(failed));
    return "cannot connect to PostgreSQL: " +
           (is_quotable || message.starts_with("connection to server ")
                ? message
                : "the reason is not shown, because it may quote the connection string");
}

[[noreturn]] void raise(const pg_conn *failed, const std::string &state, bool is_quotable)
{
    const auto message = message_of(failed, is_quotable);
    if (may_end(state, message))
        throw connection_error{message, state};
    throw usage_error{message, state};
}

} // namespace

bool is_connection_string(std::string_view how)
{
    return how.find('=') != how.npos || how.starts_with("postgresql://") || how.starts_with("postgres://");
}

// The message has a severity, which is in the server's language, a colon, two blanks, the SQLSTATE and a colon. Before
// them comes only libpq's own text, with the host's name and port ("connection to server at ... failed: ").
std::string sqlstate_in(std::string_view message)
{
    const auto is_of_sqlstate = [](char letter) {
        return (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z');
    };
    for (auto at = message.find(":  "); at != message.npos; at = message.find(":  ", at + 1)) {
        const auto state = message.substr(at + 3, 5);
        if (message.substr(at + 3).size() > 5 && message[at + 8] == ':' && std::ranges::all_of(state, is_of_sqlstate))
            return std::string{state};
    }
    return "";
}

pg_conn *open(const std::string &how, std::chrono::milliseconds patience, bool to_write, bool is_unproven,
              bool is_quotable)
{
    const tls_use here; // TLS may be needed: for encryption, or to hash a password
    if (!here.is_allowed())
        throw connection_error{"no connection can be opened, because this process is exiting"};
    require_parsable(how, is_quotable);
    const auto all = resolved(how.c_str());
    const auto hosts = 1 + std::max(commas(given(all, "host")), commas(given(all, "hostaddr")));
    const auto each = std::max(std::chrono::ceil<std::chrono::seconds>(patience) / hosts, std::chrono::seconds{2});
    const auto timeout = std::to_string(std::min<std::int64_t>(each.count(), INT32_MAX));
    const bool has_timeout = !given(all, "connect_timeout").empty();
    const bool has_keepalives =
        std::ranges::any_of(keepalives, [&](const char *one) { return !given(all, one).empty(); });
    const bool is_to_write = to_write && !says_which_servers(all, how.c_str());

    // A setting after dbname overrides the string's. client_encoding must be UTF8, because in another encoding the same
    // bytes would be the name of another lock.
    const std::array<const char *, 8> names{
        "fallback_application_name", "connect_timeout", "target_session_attrs", "keepalives_idle",
        "keepalives_interval",       "dbname",          "client_encoding"};
    const std::array<const char *, 8> values{"shedlock",
                                             has_timeout ? nullptr : timeout.c_str(),
                                             is_to_write ? "read-write" : nullptr,
                                             has_keepalives ? nullptr : "60",
                                             has_keepalives ? nullptr : "10",
                                             how.c_str(),
                                             "UTF8"};
    const auto began = clock::now();
    attempt opened{PQconnectdbParams(names.data(), values.data(), 1)};
    if (PQstatus(opened.get()) == CONNECTION_OK)
        return opened.release();
    if (!is_unproven)
        raise(opened.get(), "", is_quotable);
    if (PQconnectionNeedsPassword(opened.get()))
        raise(opened.get(), "28P01", is_quotable);
    // If this has passed, a host did not answer, and would not answer again. libpq waits for at least two seconds.
    const std::chrono::seconds given_timeout{std::atoi(given(all, "connect_timeout").c_str())};
    const auto until =
        later(began, given_timeout.count() > 0 ? std::max(given_timeout, std::chrono::seconds{2}) : each);
    raise(opened.get(), ask_for_sqlstate(names.data(), values.data(), until), is_quotable);
}

} // namespace shedlock::internal
