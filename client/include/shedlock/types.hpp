// What both clients share: shedlock.hpp, on libpq, and pqxx.hpp, on a libpqxx connection. Needs C++17 and no library.
// Every class is defined entirely in this header and has default visibility, so that it is the same type in every
// program and library, even in those that are built with -fvisibility=hidden or loaded with RTLD_LOCAL.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#define SHEDLOCK_EXPORT __attribute__((visibility("default")))

namespace shedlock {

// ---- Errors ----

// That another caller holds the lock is an outcome, not an error. For errors, what() is a message for people. Of these
// classes pqxx.hpp throws only in_doubt, lock_lost and usage_error; all other errors that it throws are libpqxx's.

// The server could not do what was asked. sqlstate() is its code, or empty.
class SHEDLOCK_EXPORT error : public std::runtime_error {
public:
    explicit error(const std::string &message, std::string sqlstate = {})
        : std::runtime_error{message}, sqlstate_{std::move(sqlstate)}
    {
    }
    [[nodiscard]] const std::string &sqlstate() const noexcept { return sqlstate_; }

private:
    std::string sqlstate_;
};

// No server, a connection that broke, a server that accepts no writes (a standby), or a table or (extend and release) a
// row that another transaction keeps locked (SQLSTATE 55P03).
class SHEDLOCK_EXPORT connection_error : public error {
public:
    using error::error;
};

// A reply was lost or, to an acquire or extend, came with a warning that the commit may not have reached the standby,
// and the client could not find out in time whether the request was carried out. After an acquire the lock may be held
// in our name, for at_most at the longest; the caller must not work under it. (The client of shedlock.hpp then tries to
// release it, in a thread.) From pqxx.hpp: the connection broke during a commit.
class SHEDLOCK_EXPORT in_doubt : public connection_error {
public:
    using connection_error::connection_error;
};

// The caller does not hold the lock any more: the lease ended or another caller took over (SQLSTATE SL001), or the lock
// was already released as done (SL002; a pqxx_lock gives SL001 here, too, and the server's WARNING says which it was).
class SHEDLOCK_EXPORT lock_lost : public error {
public:
    using error::error;
};

// The caller or the administrator has to fix it: bad arguments, missing privileges, functions missing or too old.
class SHEDLOCK_EXPORT usage_error : public error {
public:
    using error::error;
};

// ---- Values ----

namespace details {

// If this UTF-8 text, which is not empty, begins with a control character, a line or paragraph separator, or a
// character that changes the direction of the text: its length in bytes. Otherwise 0.
inline std::size_t harmful_length(std::string_view text)
{
    const auto is_between = [text](std::string_view first, std::string_view last) {
        return text.substr(0, first.size()) >= first && text.substr(0, last.size()) <= last;
    };
    if (static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7F)
        return 1;
    if (is_between("\xC2\x80", "\xC2\x9F") || is_between("\xD8\x9C", "\xD8\x9C")) // U+0080 to 009F, 061C
        return 2;
    if (is_between("\xE2\x80\x8E", "\xE2\x80\x8F") || is_between("\xE2\x80\xA8", "\xE2\x80\xAE") ||
        is_between("\xE2\x81\xA6", "\xE2\x81\xA9")) // U+200E to 200F, 2028 to 202E, 2066 to 2069
        return 3;
    return 0;
}

// Each byte as \xNN.
inline std::string escaped(std::string_view bytes)
{
    std::string text;
    for (const char one : bytes) {
        const auto byte = static_cast<unsigned char>(one);
        text += {'\\', 'x', "0123456789ABCDEF"[byte / 16], "0123456789ABCDEF"[byte % 16]};
    }
    return text;
}

// Returns the text with harmful characters written as \xNN. Any user can choose names and holders, so they must not act
// as terminal commands or start further lines in a log. Applying it twice changes nothing more.
inline std::string printable(std::string_view text)
{
    std::string safe;
    while (!text.empty()) {
        const auto bytes = harmful_length(text);
        safe += bytes == 0 ? std::string{text.front()} : escaped(text.substr(0, bytes));
        text.remove_prefix(bytes == 0 ? 1 : bytes);
    }
    return safe;
}

// If this text, which is not empty, begins with a character that PostgreSQL stores in a UTF-8 database: its length in
// bytes. Otherwise (NUL, or no UTF-8) 0.
inline std::size_t storable_length(std::string_view text)
{
    const auto byte = [text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    const auto first = byte(0), second = byte(1);
    if (first < 0x80)
        return first == 0 ? 0 : 1;
    if (first < 0xC2 || first > 0xF4 || (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
        (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) // longer than need be, or no character
        return 0;
    const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte(i) & 0xC0U) != 0x80)
            return 0;
    return length;
}

// The text with the characters that are not storable, or are longer than `longest` bytes, as \xNN.
inline std::string storable(std::string_view text, std::size_t longest)
{
    std::string safe;
    while (!text.empty()) {
        const auto length = storable_length(text);
        const auto next = text.substr(0, length == 0 ? 1 : length);
        safe += length == 0 || length > longest ? escaped(next) : std::string{next};
        text.remove_prefix(next.size());
    }
    return safe;
}

inline std::string_view first_line(std::string_view text)
{
    return text.substr(0, text.find_first_of("\r\n"));
}

// No column with an index can hold a longer name, compressed or not. The server would refuse it, too, but only after it
// has received the whole name.
inline void require_storable(std::string_view name)
{
    constexpr std::size_t longest = 1 << 20;
    if (name.size() > longest)
        throw usage_error{"name is " + std::to_string(name.size()) +
                              " bytes long, which is more than any lock table can store; use a shorter name",
                          "22001"};
}

} // namespace details

// A time by the server's clock, in microseconds as in PostgreSQL. C++20 calls this type sys_time<microseconds>.
using instant = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

// Identifies one acquisition. Each token of a name is greater than the one before.
enum class token : std::int64_t {};

// How the work under a lock ended. The view shedlock_locks shows it, and options.retry depends on it. Done is what a
// program says, with release() or a commit, or by returning from the work of run; everything else is failed.
enum class outcome { done, failed };

// One name, or several that are acquired together or not at all: "nightly", or {"ledger", "stock"}. In UTF-8.
class SHEDLOCK_EXPORT names {
public:
    names(const char *name) : names(std::string{name}) {}
    names(std::string_view name) : names(std::string{name}) {}
    names(std::string name) { list_.push_back(std::move(name)); }
    names(std::initializer_list<std::string> list) : list_(list) {}
    names(std::vector<std::string> list) : list_(std::move(list)) {}
    // {{"a", "b"}} would make one string of the memory between two addresses.
    names(std::initializer_list<std::initializer_list<const char *>>) = delete;

    [[nodiscard]] const std::vector<std::string> &list() const noexcept { return list_; }

    // For messages, with control characters as \xNN: lock "a", "b"
    [[nodiscard]] std::string to_text() const
    {
        std::string text;
        for (const auto &name : list_)
            text += (text.empty() ? "lock \"" : ", \"") + details::printable(name) + '"';
        return text;
    }

private:
    std::vector<std::string> list_;
};

namespace details {

// For run: calls the work, which reports how it ended. To return nothing means done.
template <class Work, class... Arguments> outcome result_of(Work &&work, Arguments &&...arguments)
{
    using result = std::invoke_result_t<Work, Arguments...>;
    static_assert(
        std::is_void_v<result> || std::is_same_v<result, outcome>,
        "the work of run must return nothing or a shedlock::outcome, since any other result would be ignored");
    if constexpr (std::is_same_v<result, outcome>) {
        return std::invoke(std::forward<Work>(work), std::forward<Arguments>(arguments)...);
    } else {
        std::invoke(std::forward<Work>(work), std::forward<Arguments>(arguments)...);
        return outcome::done;
    }
}

// Statements are pure ASCII, so that no client_encoding can change a name, and contain no backslashes, so that
// standard_conforming_strings does not matter. Nor do they contain what session::ask would replace, @extschema@ for
// example, from one of the values.
struct sql {
    static std::string constant(const std::string &utf8)
    {
        std::string hex;
        bool is_plain = true;
        for (const char one : utf8) {
            const auto byte = static_cast<unsigned char>(one);
            is_plain = is_plain && byte >= ' ' && byte <= '~' && byte != '\'' && byte != '\\';
            hex += {"0123456789abcdef"[byte / 16], "0123456789abcdef"[byte % 16]};
        }
        return is_plain && std::count(utf8.begin(), utf8.end(), '@') < 2
                   ? typed(utf8, "text")
                   : "pg_catalog.convert_from(pg_catalog.decode('" + hex + "', 'hex'), 'UTF8')";
    }
    // One name is passed as text, several as text[], so that the server's errors mention a name or an array, whichever
    // the caller gave.
    static std::string constant(const names &what)
    {
        std::string all;
        for (const auto &name : what.list()) {
            require_storable(name);
            all += (all.empty() ? "" : ", ") + constant(name);
        }
        return what.list().size() == 1 ? all : array(all);
    }
    static std::string array(const std::string &constants) { return "ARRAY[" + constants + "]::pg_catalog.text[]"; }
    static std::string constant(token id) { return typed(std::to_string(static_cast<std::int64_t>(id)), "int8"); }
    static std::string constant(std::chrono::microseconds duration)
    {
        return typed(std::to_string(duration.count()) + " microseconds", "interval");
    }
    static std::string constant(instant time)
    {
        return "'1970-01-01 00:00:00+00'::pg_catalog.timestamptz OPERATOR(pg_catalog.+) " +
               constant(time.time_since_epoch());
    }
    static std::string typed(const std::string &value, const char *type)
    {
        return '\'' + value + "'::pg_catalog." + type;
    }

    // The arguments of shedlock_acquire_token after the names, for `options` and `pqxx_options`: those that were set,
    // so that an older server understands a newer client. tick is a column: see due().
    template <class Options>
    static std::string acquire_arguments(const Options &how, const std::string &holder, bool ends_with_session,
                                         std::chrono::microseconds wait = {})
    {
        std::string text = "at_most => " + constant(how.at_most);
        if (how.at_least.count() != 0)
            text += ", at_least => " + constant(how.at_least);
        if (wait.count() != 0)
            text += ", wait => " + constant(wait);
        if (how.tick || has_schedule(how))
            text += ", tick => tick";
        if (how.retry)
            text += ", retry => true";
        if (how.start_within)
            text += ", start_within => " + constant(*how.start_within);
        if (!holder.empty())
            text += ", holder => " + constant(holder);
        if (ends_with_session)
            text += ", ends_with_session => true";
        return text;
    }
    // The tick of a run, as a column, or NULL.
    template <class Options> static std::string due(const Options &how)
    {
        return due(has_schedule(how) ? tick(how, "shedlock_tick")
                   : how.tick        ? constant(*how.tick)
                                     : "NULL::pg_catalog.timestamptz");
    }
    static std::string due(const std::string &tick) { return " FROM (SELECT " + tick + " AS tick OFFSET 0) AS due"; }
    template <class Options> static bool has_schedule(const Options &how) { return how.every || !how.cron.empty(); }
    // The tick of a schedule, as SQL, at the time of the call or a while before it. The server has a function for
    // intervals and one for text; the types of the constants choose between them.
    template <class Options>
    static std::string tick(const Options &how, const std::string &function, std::chrono::microseconds ago = {})
    {
        return function + '(' + (how.every ? constant(*how.every) : constant(how.cron)) + ", zone => " +
               constant(how.zone.empty() ? "UTC" : how.zone) +
               (ago.count() == 0 ? ""
                                 : ", at => pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) " + constant(ago)) +
               ')';
    }
    static std::string in_microseconds(const std::string &time)
    {
        return "(extract(epoch FROM " + time + ") OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8";
    }
    template <class Options> static void require_one_tick(const Options &how)
    {
        if (how.tick.has_value() + how.every.has_value() + !how.cron.empty() > 1)
            throw usage_error{"give only one of tick, every and cron", "22023"};
        if (!has_schedule(how) && !how.zone.empty())
            throw usage_error{"zone applies only to every and cron, and neither was given", "22023"};
    }
    // The last argument of a release, if there is a detail. The release must not fail because of the text, even in a
    // database whose encoding lacks a character of it. The server keeps 1000 characters, of four bytes at most.
    static std::string detail(std::string_view text)
    {
        text = text.substr(0, 4000);
        const auto whole = storable(text, 4), ascii = storable(text, 1);
        if (whole == ascii)
            return text.empty() ? "" : ", detail => " + constant(ascii);
        return ", detail => CASE WHEN pg_catalog.getdatabaseencoding() OPERATOR(pg_catalog.=) ANY "
               "('{UTF8,SQL_ASCII}'::pg_catalog.name[]) THEN " +
               constant(whole) + " ELSE " + constant(ascii) + " END";
    }
    // The beginning of a call. schema: quoted, with its dot, or "" for that of search_path.
    static std::string call(const std::string &function, const names &what, token id, const std::string &schema = {})
    {
        return schema + "shedlock_" + function + "_token(" + constant(what) + ", " + constant(id);
    }
    static std::string complete(const names &what, token id, const std::string &schema = {})
    {
        return "SELECT " + call("complete", what, id, schema) + ')';
    }
    static std::string guard(const names &what, token id, const std::string &schema = {})
    {
        if (what.list().empty())
            throw usage_error{"give at least one name", "22023"};
        std::string calls;
        for (const auto &name : what.list())
            calls += (calls.empty() ? "SELECT " : ", ") + call("guard", name, id, schema) + ')';
        return calls;
    }
};

// For a lock that was destroyed, and was recorded as failed.
inline std::string not_reported(const names &what, bool has_tick)
{
    return what.to_text() + " was destroyed without release(): its run was recorded as failed" +
           (has_tick ? ", so with retry its tick is due again" : "");
}

} // namespace details

} // namespace shedlock
