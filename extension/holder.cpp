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
    static char address[NI_MAXHOST]; // does not change while the backend lives; "???" if it cannot be told
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

// Takes "<mark><digits>" off the end of the text.
std::optional<int64> take_number(std::string_view &end, std::string_view mark, size_t most_digits = 18)
{
    const size_t start = end.find_last_not_of("0123456789") + 1;
    std::string_view rest{end.data(), start};
    if (start == end.size() || end.size() - start > most_digits || !rest.ends_with(mark))
        return std::nullopt;
    int64 number = 0;
    for (const char digit : std::string_view{end.data() + start, end.size() - start})
        number = 10 * number + (digit - '0');
    rest.remove_suffix(mark.size());
    end = rest;
    return number;
}

bool take_word(std::string_view &end, std::string_view word)
{
    const bool is_there = end.ends_with(word);
    if (is_there)
        end.remove_suffix(word.size());
    return is_there;
}

struct session {
    int pid;
    instant started;
    bool is_run;
};

std::optional<session> take_session(std::string_view &end)
{
    auto rest = end;
    const auto started = take_number(rest, ".");
    const auto pid = started ? take_number(rest, "/", 9) : std::nullopt;
    if (!pid)
        return std::nullopt;
    const bool is_run = take_word(rest, "/run");
    end = rest;
    return session{static_cast<int>(*pid), instant{duration{*started}}, is_run};
}

struct parsed {
    std::string_view holder;
    origin from;
};

// (The view shedlock_locks takes it apart in the same way.)
parsed parse(const row &current)
{
    auto rest = current.locked_by;
    if (!take_session(rest) && !take_word(rest, token_suffix(current.times.locked_at)))
        return {current.locked_by, {}};
    const auto tick = take_number(rest, "/tick");
    return {rest, {true, tick ? std::optional{instant{duration{*tick}}} : std::nullopt}};
}

// Whether the backend in that place is this one. Asks shared memory: the server's own functions copy what they know of
// all backends once a transaction, and stay with that.
bool is_backend(int place, int pid, TimestampTz start)
{
    const volatile PgBackendStatus &entry = pg::all_backends()[place];
    while (entry.st_procpid == pid) {
        int before;
        int after;
        pgstat_begin_read_activity(&entry, before);
        const bool found = entry.st_procpid == pid && entry.st_proc_start_timestamp == start;
        pgstat_end_read_activity(&entry, after);
        if (pgstat_read_activity_complete(before, after))
            return found;
        CHECK_FOR_INTERRUPTS();
    }
    return false;
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

std::string_view with_remarks(std::string_view suffix, bool is_run, std::optional<instant> tick)
{
    if (is_run)
        suffix = psprintf("/run%.*s", SV(suffix));
    if (tick) {
        const long long since_1970 = std::max(*tick, instant{}).time_since_epoch().count();
        suffix = psprintf("/tick%lld%.*s", since_1970, SV(suffix));
    }
    return suffix;
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
    // Whoever is refused asks after the same one again and again, so that where it was found is remembered.
    static int places[64];
    int &place = places[static_cast<unsigned>(pid) % std::size(places)];
    const auto start = pg::to_timestamp(started);
    if (is_backend(place, pid, start))
        return true;
    for (int i = 0; i < MaxBackends; i++)
        if (is_backend(i, pid, start)) {
            place = i;
            return true;
        }
    return false;
}

std::string_view holder_of(const row &current)
{
    return parse(current).holder;
}

origin origin_of(const row &current)
{
    return parse(current).from;
}

bool is_of_dead_run(std::string_view locked_by)
{
    const auto by = take_session(locked_by);
    return by && by->is_run && !is_session_alive(by->pid, by->started);
}

} // namespace shedlock
