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
    static char address[NI_MAXHOST]; // does not change while the backend lives
    if (!*address && pg_getnameinfo_all(&client->addr, static_cast<int>(client->salen), address, sizeof address,
                                        nullptr, 0, NI_NUMERICHOST) != 0)
        return "[unknown]";
    return address;
}

std::string_view application()
{
    if (application_name && *application_name)
        return application_name;
    return session_role();
}

constexpr bool is_digit_or_dot(char c)
{
    return (c >= '0' && c <= '9') || c == '.';
}

} // namespace

const char *session_role()
{
    return GetUserNameFromId(GetSessionUserId(), false);
}

std::string_view session_suffix()
{
    // Set when the backend started, so it is made once.
    static char suffix[48];
    static int length = 0;
    if (length == 0)
        length = snprintf(suffix, sizeof suffix, "/%d.%lld", MyProcPid,
                          static_cast<long long>(pg::to_instant(MyStartTimestamp).time_since_epoch().count()));
    return {suffix, static_cast<size_t>(length)};
}

std::string_view token_suffix(instant token)
{
    return psprintf("#%lld", static_cast<long long>(token.time_since_epoch().count()));
}

text *make_locked_by(std::string_view holder, std::string_view suffix, int limit)
{
    if (holder.empty()) {
        const auto who = application();
        const auto where = client_address();
        holder = psprintf("%.*s@%.*s", SV(who), SV(where));
    }
    // The suffix is ASCII: as many characters as bytes.
    const int room = limit - static_cast<int>(suffix.size());
    const int size = pg_mbcharcliplen(holder.data(), static_cast<int>(holder.size()), room);
    return pg::text_of(psprintf("%.*s%.*s", size, holder.data(), SV(suffix)));
}

claim session_claim()
{
    return {session_suffix(), std::nullopt};
}

claim token_claim(instant token)
{
    return {token_suffix(token), token};
}

bool is_session_alive(int pid, instant started)
{
    const int count = pgstat_fetch_stat_numbackends();
    for (int i = 1; i <= count; i++) {
        const auto *const entry = pg::backend_entry(i);
        if (entry && entry->st_procpid == pid && pg::to_instant(entry->st_proc_start_timestamp) == started)
            return true;
    }
    return false;
}

std::string_view holder_of(std::string_view locked_by)
{
    auto rest = locked_by;
    while (!rest.empty() && is_digit_or_dot(rest.back()))
        rest.remove_suffix(1);
    if (rest.size() < locked_by.size() && !rest.empty() && (rest.back() == '/' || rest.back() == '#'))
        return rest.substr(0, rest.size() - 1);
    return locked_by;
}

bool is_of_ours(std::string_view locked_by)
{
    return holder_of(locked_by).size() < locked_by.size();
}

} // namespace shedlock
