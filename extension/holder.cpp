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

// Empty: not one of ours wrote it. (The view shedlock_locks asks the same.)
std::string_view suffix_of(const row &current)
{
    const auto end = current.locked_by;
    if (const auto token = token_suffix(current.times.locked_at); end.ends_with(token))
        return token;
    const size_t start = end.find_last_not_of("0123456789.");
    if (start == end.npos || end[start] != '/')
        return {};
    const auto is_digit = [&](size_t i) { return end[i] != '.'; };
    const bool is_session = end.size() - start > 3 && is_digit(start + 1) && is_digit(end.size() - 1) &&
                            std::count(end.begin() + start, end.end(), '.') == 1;
    return is_session ? std::string_view{end.data() + start, end.size() - start} : std::string_view{};
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

std::string_view holder_of(const row &current)
{
    auto holder = current.locked_by;
    holder.remove_suffix(suffix_of(current).size());
    return holder;
}

bool is_of_ours(const row &current)
{
    return !suffix_of(current).empty();
}

} // namespace shedlock
