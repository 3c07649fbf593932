#include "session.hpp"

namespace shedlock {

namespace {

constexpr std::string_view digits = "0123456789";

// Removes a number of one to `most_digits` digits from the end of the text.
std::optional<int64> take_number(std::string_view &text, size_t most_digits)
{
    const size_t start = text.find_last_not_of(digits) + 1;
    if (start == text.size() || text.size() - start > most_digits)
        return std::nullopt;
    int64 number = 0;
    for (const char digit : std::string_view{text.data() + start, text.size() - start}) // substr may throw
        number = 10 * number + (digit - '0');
    text.remove_suffix(text.size() - start);
    return number;
}

bool take_mark(std::string_view &text, char mark)
{
    const bool is_there = text.ends_with(mark);
    if (is_there)
        text.remove_suffix(1);
    return is_there;
}

constexpr size_t server_digits = 8;

// The hash of this server: eight hexadecimal digits.
std::string_view own_server()
{
    static char text[server_digits + 1];
    if (!*text) {
        const auto identifier = static_cast<int64>(GetSystemIdentifier());
        const auto hash = DatumGetUInt32(DirectFunctionCall1(hashint8, Int64GetDatum(identifier)));
        snprintf(text, sizeof text, "%08x", hash);
    }
    return {text, server_digits};
}

struct session_parts {
    int pid;
    std::optional<instant> started;
    std::string_view server;
};

// Removes a session from the end of the text.
std::optional<session_parts> take_parts(std::string_view &text)
{
    auto rest = text;
    if (rest.size() < server_digits)
        return std::nullopt;
    const std::string_view server{rest.data() + rest.size() - server_digits, server_digits}; // substr may throw
    if (server.find_first_not_of("0123456789abcdef") != server.npos)
        return std::nullopt;
    rest.remove_suffix(server_digits);
    const bool is_start_known = take_mark(rest, '.');
    if (!is_start_known && !take_mark(rest, ','))
        return std::nullopt;
    const auto started = take_number(rest, 18);
    if (!started || !take_mark(rest, '.'))
        return std::nullopt;
    const auto pid = take_number(rest, 9);
    if (!pid || !take_mark(rest, '/'))
        return std::nullopt;
    text = rest;
    return session_parts{static_cast<int>(*pid),
                         is_start_known ? std::optional{instant{duration{*started}}} : std::nullopt, server};
}

// Whether this slot of the backend list belongs to the process with this pid and, if given, this start. Reads shared
// memory directly: the server's own functions copy the whole list once per transaction, and keep that copy.
bool is_backend(int slot, int pid, std::optional<TimestampTz> start)
{
    const volatile PgBackendStatus &entry = pg::all_backends()[slot];
    while (entry.st_procpid == pid) {
        int before;
        int after;
        pgstat_begin_read_activity(&entry, before);
        const bool found = entry.st_procpid == pid && (!start || entry.st_proc_start_timestamp == *start);
        pgstat_end_read_activity(&entry, after);
        if (pgstat_read_activity_complete(before, after))
            return found;
        CHECK_FOR_INTERRUPTS();
    }
    return false;
}

bool is_backend_there(int pid, std::optional<TimestampTz> start)
{
    if (pid == 0) // slots that are not in use have 0
        return false;
    // A caller that is refused keeps asking about the same session, so the slot in which it was found is remembered.
    static int slots[64];
    int &slot = slots[static_cast<unsigned>(pid) % std::size(slots)];
    if (is_backend(slot, pid, start))
        return true;
    for (int i = 0; i < MaxBackends; i++)
        if (is_backend(i, pid, start)) {
            slot = i;
            return true;
        }
    return false;
}

} // namespace

std::string_view own_session()
{
    // All three session_parts are fixed when the backend starts, so the text is built once.
    static char text[56];
    static int length = 0;
    if (length == 0)
        length = snprintf(text, sizeof text, "/%d.%lld.%s", MyProcPid,
                          static_cast<long long>(pg::to_instant(MyStartTimestamp).time_since_epoch().count()),
                          own_server().data());
    return {text, static_cast<size_t>(length)};
}

bool take_session(std::string_view &text)
{
    return take_parts(text).has_value();
}

std::optional<bool> is_session_alive(std::string_view text)
{
    const auto who = take_parts(text);
    if (!who || !text.empty() || who->server != own_server())
        return std::nullopt;
    return is_backend_there(who->pid, who->started ? std::optional{pg::to_timestamp(*who->started)} : std::nullopt);
}

const char *session_role()
{
    return GetUserNameFromId(GetSessionUserId(), false);
}

identity session_identity()
{
    return {own_session(), std::nullopt};
}

identity token_identity(instant token)
{
    return {{}, token};
}

} // namespace shedlock
