#include "rules.hpp"

namespace {

std::string state_of(const row &known, moment now)
{
    const bool is_dead = is_abandoned(known) == verdict::yes;
    const auto until = is_dead ? std::min(known.lock_until, *known.lock_at_least_until) : known.lock_until;
    if (until <= now)
        return "free";
    if (until == infinity)
        return "paused";
    return ending_of(known).is_ours() && (is_released(known) || is_dead) ? "kept" : "held";
}

std::string outcome_of(const row &known, const std::string &state)
{
    const auto kind = ending_of(known).kind;
    if (kind == kinds::java || kind == kinds::administrator || state == "held" || state == "paused")
        return "";
    return !known.lock_at_least_until ? "done" : is_released(known) ? "failed" : "ran out";
}

std::string holder_of(const row &known)
{
    return known.locked_by.substr(0, known.locked_by.size() - ending_of(known).length);
}

// No token if it would exceed bigint.
std::string shown_token_of(const row &known)
{
    const bool has_one = known.locked_at != minus_infinity && !is_forever(known.locked_at);
    return has_one ? std::to_string(token_of(known.locked_at)) : "";
}

// Whether the view shows the instant correctly.
bool is_shown(std::optional<moment> known, const std::string &shown)
{
    return known && is_forever(*known) ? shown == "Infinity" || (!shown.empty() && is_forever(std::stoll(shown)))
           : !known                    ? shown.empty()
           : *known == minus_infinity  ? shown == "-Infinity"
                                       : shown == std::to_string(*known);
}

std::string moment_of(const std::string &column)
{
    return "trunc((extract(epoch FROM " + column + ") - 946684800) * 1000000)";
}

const char *mark_of(const ending &end)
{
    const bool ends = end.ends_with_session;
    return end.kind == kinds::java            ? ""
           : end.kind == kinds::administrator ? "*"
           : end.kind == kinds::token         ? ends ? "&" : "#"
           : ends                             ? "!"
                                              : ":";
}

bool is_session(const std::string &text)
{
    static const std::regex form{"/[0-9]{1,9}[.][0-9]{1,18}[.,][0-9a-f]{8}"};
    return std::regex_match(text, form);
}

// Whether the view shows a session as alive; empty if that is not known, because it is a session of another server.
std::string alive_text(const std::string &session)
{
    const auto own = session::sessions().begin()->first;
    const bool is_here = !session.empty() && session.substr(session.size() - 8) == own.substr(own.size() - 8);
    return !is_here ? "" : is_gone(session) == verdict::yes ? "f" : "t";
}

moment clock_of(session &any)
{
    return std::stoll(
        any.query("SELECT ((extract(epoch FROM clock_timestamp()) - 946684800) * 1000000)::bigint")[0][0]);
}

} // namespace

std::string judge_view(session &any, const rows &known, const circumstances &about)
{
    const auto before = clock_of(any);
    const auto lines = any.query("SELECT name, state, holder, token, locked_at, lock_until, remaining, held_for, "
                                 "holder_pid, holder_alive, last_duration, last_outcome, " +
                                 moment_of("last_done_at") + ", " + moment_of("last_tick") + ", " +
                                 moment_of("last_done_tick") + ", ends_with_session FROM shedlock_locks");
    const auto after = clock_of(any);
    any.query("SELECT count(*), string_agg(finding, hint) FROM shedlock_doctor()");
    if (!about.is_portable)
        any.query("SELECT * FROM shedlock_stats");
    if (lines.size() != known.size())
        return "the view has " + std::to_string(lines.size()) + " rows of " + std::to_string(known.size());
    for (const auto &line : lines) {
        const auto found = known.find(line[0]);
        if (found == known.end())
            return "the view shows \"" + printable(line[0]) + "\", which is not in the table";
        const auto end = ending_of(found->second);
        const auto gone = end.session.empty() ? verdict::no : is_gone(end.session);
        if (gone == verdict::either)
            continue;
        if (line[8] != (end.session.empty() ? "" : std::to_string(std::stoi(process_of(end.session)))) ||
            line[9] != alive_text(end.session))
            return "the view says about the session of \"" + printable(line[0]) + "\": " + line[8] + ", " + line[9];
        if (line[15] != (end.is_of_run() ? end.ends_with_session ? "t" : "f" : ""))
            return "the view says that ends_with_session of \"" + printable(line[0]) + "\" is " + line[15];
        if (line[11] != outcome_of(found->second, line[1]))
            return "the view says that the last outcome of \"" + printable(line[0]) + "\" is " + line[11];
        if (line[1] != state_of(found->second, before) && line[1] != state_of(found->second, after))
            return "the view says that \"" + printable(line[0]) + "\" is " + line[1];
        if (line[2] != holder_of(found->second))
            return "the view says that \"" + printable(line[2]) + "\" holds \"" + printable(line[0]) + "\"";
        if (line[3] != shown_token_of(found->second))
            return "the view says that the token of \"" + printable(line[0]) + "\" is " + line[3];
        const auto past = history_of(&found->second);
        const bool is_endless = found->second.locked_at != infinity && is_forever(found->second.locked_at);
        if (!is_shown(past.last_done_at, line[12]) ||
            (!is_endless && (!is_shown(past.last_tick, line[13]) || !is_shown(past.last_done_tick, line[14]))))
            return "the view says about the runs of \"" + printable(line[0]) + "\": " + line[12] + ", " + line[13] +
                   ", " + line[14];
    }
    return {};
}

std::string judge_sessions(session &any, const std::vector<std::string> &texts)
{
    for (const auto &text : texts) {
        const auto said = any.query("SELECT shedlock_session_alive('" + text + "')")[0][0];
        if (is_session(text) && is_gone(text) == verdict::either)
            continue;
        if (said != (is_session(text) ? alive_text(text) : ""))
            return "shedlock_session_alive of " + text + " is " + said;
    }
    return {};
}

std::string judge_protection(session &any, const rows &known)
{
    any.query("BEGIN ISOLATION LEVEL READ COMMITTED");
    any.query("SELECT shedlock_protect()");
    outcome seen{};
    seen.before = clock_of(any);
    std::set<std::string> changed;
    for (const auto &line : any.query("UPDATE shedlock SET lock_until = lock_until RETURNING name"))
        changed.insert(line[0]);
    seen.after = clock_of(any);
    any.query("ROLLBACK");
    for (const auto &[name, row] : known) {
        const auto is_free = is_past(row.lock_until, seen);
        const bool is_ours = ending_of(row).is_ours();
        if (changed.count(name) ? is_ours && is_free == verdict::no : !is_ours || is_free == verdict::yes)
            return "the row of \"" + printable(name) + "\" was " + (changed.count(name) ? "not " : "") + "protected";
    }
    return {};
}

std::string judge_portable_parser(session &any, const rows &known)
{
    for (const auto &line : any.query("SELECT s.name, o.is_ours, o.kind, o.session, o.holder FROM shedlock s, "
                                      "portable.shedlock__origin(s.locked_by, s.locked_at) o")) {
        const auto &row = known.at(line[0]);
        const auto end = ending_of(row);
        if ((line[1] == "t") != end.is_ours() || line[2] != mark_of(end) || line[3] != end.session ||
            line[4] != holder_of(row))
            return "the portable edition splits locked_by of \"" + printable(line[0]) + "\" into holder \"" +
                   printable(line[4]) + "\", session \"" + line[3] + "\" and kind \"" + line[2] + '"';
    }
    return {};
}
