#include "locked_by.hpp"

#include "session.hpp"

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

} // namespace

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
