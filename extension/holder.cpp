#include "holder.hpp"

namespace shedlock {

namespace {

std::string_view client_address()
{
    // A background worker, pg_cron's for example, has no client.
    const SockAddr *const client = MyBEEntry ? &MyBEEntry->st_clientaddr : nullptr;
    if (!client || client->addr.ss_family == 0)
        return "[background]";
    if (client->addr.ss_family == AF_UNIX)
        return "[local]";
    static char address[NI_MAXHOST]; // constant while the backend lives; "???" if it is not known
    if (!*address)
        pg_getnameinfo_all(&client->addr, static_cast<int>(client->salen), address, sizeof address, nullptr, 0,
                           NI_NUMERICHOST);
    return address;
}

std::string_view application()
{
    if (application_name && *application_name)
        return application_name;
    return session_role();
}

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

// Removes the row's own locked_at from the end of the text.
bool take_locked_at(std::string_view &text, instant locked_at)
{
    char number[MAXINT8LEN + 1];
    const size_t length = pg_lltoa(locked_at.time_since_epoch().count(), number);
    const bool is_there =
        locked_at != never && locked_at != forever && text.ends_with(std::string_view{number, length});
    if (is_there)
        text.remove_suffix(length);
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

struct session {
    int pid;
    std::optional<instant> started;
    std::string_view server;
};

// Removes a session from the end of the text.
std::optional<session> take_session(std::string_view &text)
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
    return session{static_cast<int>(*pid), is_start_known ? std::optional{instant{duration{*started}}} : std::nullopt,
                   server};
}

// This session, as it is written in locked_by.
std::string_view own_session()
{
    // All three parts are fixed when the backend starts, so the text is built once.
    static char text[56];
    static int length = 0;
    if (length == 0)
        length = snprintf(text, sizeof text, "/%d.%lld.%s", MyProcPid,
                          static_cast<long long>(pg::to_instant(MyStartTimestamp).time_since_epoch().count()),
                          own_server().data());
    return {text, static_cast<size_t>(length)};
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

const char *session_role()
{
    return GetUserNameFromId(GetSessionUserId(), false);
}

std::string_view end_of(origin::kinds kind, instant locked_at, bool ends_with_session)
{
    const auto number = static_cast<long long>(locked_at.time_since_epoch().count());
    if (kind == origin::kinds::administrator)
        return psprintf("*%lld", number);
    if (kind == origin::kinds::session)
        return psprintf("%.*s%c%lld", SV(own_session()), ends_with_session ? '!' : ':', number);
    return ends_with_session ? psprintf("%.*s&%lld", SV(own_session()), number) : psprintf("#%lld", number);
}

text *make_locked_by(std::string_view holder, std::string_view end, int limit)
{
    if (holder.empty()) {
        const auto who = application();
        const auto where = client_address();
        holder = psprintf("%.*s@%.*s", SV(who), SV(where));
    }
    // The end is ASCII, so it has as many characters as bytes.
    const int room = limit - static_cast<int>(end.size());
    const int size = pg_mbcharcliplen(holder.data(), static_cast<int>(holder.size()), room);
    return pg::text_of(psprintf("%.*s%.*s", size, holder.data(), SV(end)));
}

claim session_claim()
{
    return {own_session(), std::nullopt};
}

claim token_claim(instant token)
{
    return {{}, token};
}

std::optional<bool> is_session_alive(std::string_view text)
{
    const auto who = take_session(text);
    if (!who || !text.empty() || who->server != own_server())
        return std::nullopt;
    return is_backend_there(who->pid, who->started ? std::optional{pg::to_timestamp(*who->started)} : std::nullopt);
}

row read_row(const lease &times, std::string_view locked_by)
{
    row result{times, {}, locked_by};
    auto rest = locked_by;
    if (!take_locked_at(rest, times.locked_at) || rest.empty())
        return result;
    const char separator = rest.back();
    rest.remove_suffix(1);
    const size_t end = rest.size();
    switch (separator) {
    case '#':
        result.from.kind = origin::kinds::token;
        break;
    case '*':
        result.from.kind = origin::kinds::administrator;
        break;
    case ':':
    case '!':
    case '&':
        if (!take_session(rest))
            return result;
        result.from = {separator == '&' ? origin::kinds::token : origin::kinds::session,
                       {locked_by.data() + rest.size(), end - rest.size()},
                       separator != ':'};
        break;
    default:
        return result;
    }
    result.holder = rest;
    return result;
}

bool has_lost_its_session(const lease &times, std::string_view locked_by)
{
    if (locked_by.find('!') == locked_by.npos && locked_by.find('&') == locked_by.npos)
        return false;
    const auto from = read_row(times, locked_by).from;
    return from.ends_with_session && is_session_alive(from.session) == false;
}

} // namespace shedlock
