// Pairs of calls of the real code. Each operation is stopped at each of the pause points that it reaches
// (extension/pause_point.hpp). There one of the other operations, each in turn, runs to its end or until it waits;
// then the stopped one goes on. Both answers and the table are checked against the rules in extension/rules.hpp.
//
//   pairs [-v] DATABASE hot|moving old|none all|half [STOPPED [OTHER]]
//
// The table's updates are either HOT or move the row; another session holds an old snapshot open, or not. With half,
// each pair is tried at each point on two of these four kinds of tables, which differ in both respects. Prints a line
// "ok - " or "not ok - " for each operation that is stopped, and before it the pairs that broke a rule. STOPPED and
// OTHER choose operations by their titles. Run by test/pairs/check, which builds an extension that can be stopped.
#include "operations.hpp"

#include <iostream>
#include <stdexcept>
#include <utility>

namespace {

using shedlock::instant;
using namespace std::chrono_literals;

constexpr auto patience = 2ms; // before looking whether a statement waits
constexpr auto too_long = 180s;

instant time_of(const std::string &microseconds)
{
    if (microseconds.ends_with("infinity"))
        return microseconds.starts_with('-') ? shedlock::never : shedlock::forever;
    return instant{shedlock::duration{std::stoll(microseconds)}};
}

bool is_acquire(verb what)
{
    return what == verb::acquire || what == verb::pause || what == verb::run;
}

bool never_waits(verb what)
{
    return is_acquire(what) || what == verb::forget;
}

bool has_changed_something(const operation &op, const answer &given)
{
    const bool by_sql = op.what == verb::by_hand || op.what == verb::java_acquire || op.what == verb::java_update;
    return by_sql ? given.affected > 0 : !given.value.empty() && given.value != "f";
}

// One table, and the sessions that use it.
class arena {
public:
    arena(const std::string &database, bool has_old_snapshot)
        : stopped_{database}, other_{database}, observer_{database}, gate_{database}, old_{database},
          has_old_snapshot_{has_old_snapshot}
    {
        // look() finds rows through the index, while erase() scans the table and counts all of them. (Without seqscan
        // the planner estimates such a cost for that scan that it would use JIT.)
        observer_.query("SET enable_seqscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan");
        observer_.query("PREPARE look (text, text) AS SELECT name = $2, us(lock_until), us(locked_at), "
                        "us(lock_at_least_until), locked_by, us(last_tick), us(last_done_tick), us(last_done_at), "
                        "us(run_tick) FROM shedlock WHERE name IN ($1, $2)");
        // A session that has been woken is no longer blocked, although it may not have noticed yet. From PostgreSQL 19
        // on, waiting for a pin has another name.
        observer_.query("PREPARE waits (int) AS SELECT cardinality(pg_blocking_pids($1)) > 0 OR EXISTS "
                        "(SELECT FROM pg_stat_get_activity($1) WHERE wait_event IN ('BufferPin', 'BufferCleanup'))");
        observer_.query("PREPARE erase (text, text) AS DELETE FROM shedlock WHERE name || '' IN ($1, $2)");
    }

    // The pause points that the operation reaches when it runs alone, without being stopped.
    std::vector<std::string> points_of(const stopped_operation &stopped)
    {
        point_.clear();
        prepare(stopped);
        start(stopped, 0);
        while (!stopped_.has_ended(too_long))
            continue;
        stopped_.leave_transaction();
        resume();
        erase(look());
        return stopped_.points();
    }

    // If there is an old snapshot, row versions that are written from now on cannot be pruned.
    void renew_snapshot()
    {
        end_snapshot();
        observer_.query("TRUNCATE shedlock"); // dead versions, which every later search would have to visit
        open_snapshot();
    }

    // Returns a description of what is wrong, empty if nothing is, or nullopt if the operation did not reach this
    // point: how many index entries it meets depends on where in the page new versions found space.
    std::optional<std::string> try_pair(const stopped_operation &stopped, int visit, const other_operation &other)
    {
        prepare(stopped);
        if (other.is_early)
            other_.query("BEGIN; " + filled(other.steps[0].sql));
        start(stopped, visit);
        if (!stops()) {
            settle();
            erase(look());
            return std::nullopt;
        }
        // Whether the operation has written something depends only on the point, so it is looked up once per point.
        if (const auto point = stopped_.points()[0] + std::to_string(visit); std::exchange(point_, point) != point)
            has_written_ = has_written();
        during_ = {look()};
        ran_.reset();
        if (const auto &row = during_[0][0]; stopped.what.what == verb::run && row &&
                                             row->locked_by.find(stopped_.mark() + "!") != std::string::npos &&
                                             row->times.locked_at > latest_[0])
            ran_ = row->times.locked_at;
        note(during_[0]);

        auto problem = let_run(stopped, other);
        settle();
        if (erase(look()) && problem.empty())
            problem = "the table has more rows than the index, or fewer";
        return problem;
    }

private:
    // Returns false if the operation ends, or waits for the other session, before it reaches the point.
    bool stops()
    {
        bool is_over = false;
        for (int times_seen = 0; !is_over && times_seen < 2 && stopped_.points().empty();) {
            is_over = stopped_.has_ended(patience);
            times_seen = other_.is_in_transaction() && is_waiting(stopped_) ? times_seen + 1 : 0;
        }
        return !stopped_.points().empty();
    }

    // Also true if it is just about to write.
    bool has_written()
    {
        return !observer_
                    .query("SELECT 1 FROM pg_locks WHERE pid = " + std::to_string(stopped_.process()) +
                           " AND (locktype = 'transactionid' OR locktype = 'advisory' AND objsubid > 2)")
                    .empty();
    }

    std::string let_run(const stopped_operation &stopped, const other_operation &other)
    {
        if (other.is_early) {
            other_.query(other.end);
            during_.push_back(look());
            note(during_.back());
            resume();
            return ends_without_waiting(stopped_) ? judge_stopped(stopped.what, true, {}, look()).problem
                                                  : "waits, although no other operation is under way any more";
        }
        std::size_t i = 0;
        for (; i < other.steps.size(); i++) {
            const bool stays_open = i + 1 == other.steps.size() && !other.end.empty();
            other_.send((stays_open ? "BEGIN; " : "") + filled(other.steps[i].sql));
            if (!ends_without_waiting(other_))
                return finish_while_other_waits(stopped, other, i);
            if (stays_open)
                return finish_while_other_is_open(stopped.what, other);
            other_.leave_transaction();
            if (auto problem =
                    judge_step(other.steps[i], other_.result(), during_.back(), {&during_.back(), 1}, has_written_, {});
                !problem.empty())
                return problem;
        }
        resume();
        if (!ends_without_waiting(stopped_))
            return "waits, although no other operation is under way";
        return judge_stopped(stopped.what, false, {}, look()).problem;
    }

    std::string finish_while_other_waits(const stopped_operation &stopped, const other_operation &other, std::size_t i)
    {
        const auto &waiting = other.steps[i];
        const bool is_maintenance = waiting.what == verb::maintenance;
        if (never_waits(waiting.what))
            return with(waiting, "waits");
        if (!is_maintenance && !has_written_)
            return with(waiting, "waits for a call that has not written anything");
        const bool stays_open = i + 1 == other.steps.size() && !other.end.empty();
        resume();
        if (!ends_without_waiting(stopped_))
            // A run may wait when it releases its lock: meanwhile the other operation may have locked or changed the
            // row, in a transaction that is still open.
            return stays_open && ends_without_waiting(other_) && stopped.what.what == verb::run
                       ? ""
                       : "waits for an operation that waits for it";

        // Unless it is maintenance, the other operation at once overwrites what the stopped one has written.
        std::optional<state> after;
        if (is_maintenance)
            after = look();
        const auto mine = stopped.what.what == verb::run && !is_maintenance
                              ? verdict{}
                              : judge_stopped(stopped.what, false, {}, after);
        if (!mine.problem.empty())
            return mine.problem;
        if (!ends_without_waiting(other_)) {
            end_snapshot(); // REINDEX CONCURRENTLY waits for that
            if (!other_.has_ended(too_long))
                return with(waiting, "still waits after the stopped operation has ended");
        }
        if (stopped.what.what == verb::run && !is_maintenance)
            return {}; // the other operation went on in the middle of a call with several transactions
        const auto given = other_.result();
        if (stays_open) {
            other_.ask(other.end);
            if (other.end == "ROLLBACK")
                return {};
        }
        const std::vector<state> during{during_.back(), mine.after};
        const auto blur = is_maintenance ? shedlock::duration{} : given.ended - stopped_.result().begun;
        auto problem = judge_step(waiting, given, mine.after, during, true, blur);
        for (i++; problem.empty() && i < other.steps.size(); i++) {
            other_.ask(filled(other.steps[i].sql));
            problem = judge_step(other.steps[i], other_.result(), during_.back(), {&during_.back(), 1}, false, {});
        }
        return problem;
    }

    // The call writes nothing before the commit, and its answer is that of the commit.
    std::string finish_while_other_completes(const operation &stopped, const other_operation &other)
    {
        const auto &last = other.steps.back();
        auto given = other_.result();
        const bool has_failed = !given.error.empty();
        resume();
        if (!ends_without_waiting(stopped_))
            return "waits for a transaction that has only called shedlock_complete";
        const auto mine = judge_stopped(stopped, false, {}, look());
        const auto committed = other_.ask(other.end);
        if (!mine.problem.empty())
            return mine.problem;
        const auto final = look();
        if (describe(final) != describe(mine.after) && (has_failed || other.end == "ROLLBACK"))
            return with(last, "changes something, although it was rolled back");
        if (has_failed)
            return judge_other(last, given, during_.back(), {&during_.back(), 1}, has_written_, {}, {}).problem;
        if (other.end == "ROLLBACK")
            return {};
        given.ended = committed.ended;
        given.error = committed.error;
        given.message = committed.message;
        given.detail = committed.detail;
        given.warnings = committed.warnings;
        const std::vector<state> during{during_.back(), mine.after};
        const auto judged = judge_other(last, given, mine.after, during, false, {}, final);
        return judged.problem.empty() ? "" : with(last, judged.problem);
    }

    std::string finish_while_other_is_open(const operation &stopped, const other_operation &other)
    {
        const auto &last = other.steps.back();
        if (last.what == verb::complete)
            return finish_while_other_completes(stopped, other);
        const auto given = other_.result();
        const auto before = during_.back();
        const bool is_kept = other.end == "COMMIT" && has_changed_something(last, given);
        resume();
        if (!ends_without_waiting(stopped_)) {
            if (never_waits(stopped.what) && !ran_) // a run that has begun may wait before it releases
                return "waits";
            const auto judged = judge_other(last, given, before, {&before, 1}, has_written_, {}, {});
            during_.push_back(is_kept ? judged.after : before);
            other_.ask(other.end);
            if (!stopped_.has_ended(too_long))
                return "still waits after the other operation has ended";
            const auto blur = stopped_.result().ended - stopped_.result().begun;
            return !judged.problem.empty() ? with(last, judged.problem)
                                           : judge_stopped(stopped, true, blur, look()).problem;
        }
        const auto mine = judge_stopped(stopped, true, {}, look());
        other_.ask(other.end);
        if (!mine.problem.empty())
            return mine.problem;
        const auto final = look();
        const auto judged = judge_other(last, given, before, {&before, 1}, has_written_, {},
                                        is_kept ? std::optional{final} : std::nullopt);
        if (!judged.problem.empty())
            return with(last, judged.problem);
        if (!is_kept && describe(final) != describe(mine.after))
            return with(last, "changes " + describe(mine.after) + " into " + describe(final));
        return {};
    }

    // After this neither of the pair's sessions is stopped, waits, or is in a transaction, however the pair ended.
    void settle()
    {
        if (!other_.is_busy())
            other_.leave_transaction();
        resume();
        const auto deadline = std::chrono::steady_clock::now() + too_long;
        while (stopped_.is_busy() || other_.is_busy()) {
            for (auto *const session : {&stopped_, &other_})
                if (!session->is_busy() || session->has_ended(50ms))
                    session->leave_transaction();
                else
                    end_snapshot();
            if (std::chrono::steady_clock::now() > deadline)
                throw std::runtime_error("it never ends");
        }
        stopped_.leave_transaction();
        open_snapshot();
    }

    static std::string with(const operation &op, const std::string &problem) { return "(" + op.sql + ") " + problem; }

    verdict judge_stopped(const operation &op, bool may_collide, shedlock::duration blur,
                          const std::optional<state> &after)
    {
        stopped_.leave_transaction();
        const circumstances known{stopped_.mark(), token_, latest_, may_collide, blur, ran_};
        return judge(op, stopped_.result(), known, during_, during_.back(), after);
    }

    verdict judge_other(const operation &op, const answer &given, const state &before, std::span<const state> during,
                        bool may_collide, shedlock::duration blur, const std::optional<state> &after)
    {
        const circumstances known{other_.mark(), token_, latest_, may_collide, blur, {}};
        return judge(op, given, known, during, before, after);
    }

    std::string judge_step(const operation &op, const answer &given, const state &before, std::span<const state> during,
                           bool may_collide, shedlock::duration blur)
    {
        const auto after = look();
        const auto judged = judge_other(op, given, before, during, may_collide, blur, after);
        during_.push_back(after);
        note(after);
        return judged.problem.empty() ? "" : with(op, judged.problem);
    }

    // With a new name, which no session has seen.
    void prepare(const stopped_operation &stopped)
    {
        name_ = "n" + std::to_string(++run_);
        for (const auto &[by_itself, sql] : stopped.before)
            (by_itself ? stopped_ : observer_).query(filled(sql));
        latest_.fill(shedlock::never);
        const auto rows = look();
        note(rows);
        token_ = rows[0] ? rows[0]->times.locked_at : instant{shedlock::duration{1}};
    }

    void start(const stopped_operation &stopped, int visit)
    {
        gate_.query("SELECT pg_advisory_lock(0, 1)");
        is_gate_closed_ = true;
        stopped_.query("SET pairs.pause_at = '" + std::to_string(run_) + ":" + std::to_string(visit) + "'");
        stopped_.send(filled(stopped.what.sql));
    }

    void resume()
    {
        if (std::exchange(is_gate_closed_, false))
            gate_.query("SELECT pg_advisory_unlock(0, 1)");
    }

    void open_snapshot()
    {
        if (has_old_snapshot_ && !old_.is_in_transaction())
            old_.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    }
    void end_snapshot() { old_.leave_transaction(); }

    bool ends_without_waiting(session &session)
    {
        const auto deadline = std::chrono::steady_clock::now() + too_long;
        for (int times_seen = 0; times_seen < 2;) {
            if (session.has_ended(patience))
                return true;
            times_seen = is_waiting(session) ? times_seen + 1 : 0;
            if (std::chrono::steady_clock::now() > deadline)
                throw std::runtime_error("neither ends nor waits: " + name_);
        }
        return false;
    }

    bool is_waiting(const session &session)
    {
        return observer_.query("EXECUTE waits (" + std::to_string(session.process()) + ")")[0][0] == "t";
    }

    std::string filled(std::string sql) const
    {
        const std::array<std::pair<std::string_view, std::string>, 3> values{
            {{"{name}", name_},
             {"{other}", name_ + "b"},
             {"{token}", std::to_string(token_.time_since_epoch().count())}}};
        for (const auto &[place, value] : values)
            for (auto at = sql.find(place); at != sql.npos; at = sql.find(place, at))
                sql.replace(at, place.size(), value);
        return sql;
    }

    state look()
    {
        state found;
        const auto if_any = [](const std::string &text) {
            return text.empty() ? std::nullopt : std::optional{time_of(text)};
        };
        for (const auto &row : observer_.query(filled("EXECUTE look ('{name}', '{other}')")))
            found[row[0] == "t"] = {{time_of(row[1]), time_of(row[2]), if_any(row[3])},
                                    row[4],
                                    {if_any(row[5]), if_any(row[6]), if_any(row[7]), if_any(row[8])}};
        return found;
    }

    void note(const state &rows)
    {
        for (std::size_t i = 0; i < names; i++)
            if (rows[i])
                latest_[i] = std::max(latest_[i], rows[i]->times.locked_at);
    }

    // Returns whether there were more or fewer rows than these. Does not use the index.
    bool erase(const state &rows)
    {
        const auto erased = observer_.ask(filled("EXECUTE erase ('{name}', '{other}')")).affected;
        return erased != rows[0].has_value() + rows[1].has_value();
    }

    session stopped_, other_, observer_, gate_, old_;
    const bool has_old_snapshot_;
    bool is_gate_closed_ = false;
    int run_ = 0;
    std::string name_;
    instant token_{};
    std::array<instant, names> latest_{};
    std::string point_;
    bool has_written_ = false; // by the stopped operation
    std::vector<state> during_;
    std::optional<instant> ran_;
};

void make_database(const std::string &name, bool moves_rows)
{
    session{"postgres"}.query("CREATE DATABASE " + name);
    session database{name};
    database.query("CREATE EXTENSION shedlock");
    database.query("CREATE FUNCTION us(timestamp) RETURNS text LANGUAGE sql AS "
                   "$$SELECT CASE WHEN isfinite($1) THEN (extract(epoch FROM $1) * 1000000)::bigint::text "
                   "ELSE $1::text END$$");
    if (moves_rows)
        database.query("CREATE INDEX ON shedlock (lock_until); SELECT shedlock_keep_history()");
}

struct choice {
    std::string stopped, other;
    bool is_verbose;
    std::optional<std::size_t> left_out; // pairs whose number modulo 2 is this
};

std::optional<std::string> try_pair(arena &arena, const stopped_operation &stopped, int visit, const std::string &point,
                                    const other_operation &other)
try {
    return arena.try_pair(stopped, visit, other);
} catch (const std::exception &failure) {
    throw std::runtime_error(stopped.title + " | stopped at " + std::to_string(visit) + " (" + point + ") | " +
                             other.title + ": " + failure.what());
}

bool try_all(arena &arena, session &janitor, const stopped_operation &stopped, const std::string &table,
             const choice &chosen)
{
    int pairs = 0, broken = 0;
    const auto points = arena.points_of(stopped);
    if (points.empty())
        throw std::runtime_error(stopped.title + " reaches no pause point");
    for (std::size_t i = 0; i < points.size(); i++) {
        arena.renew_snapshot();
        auto number = i;
        for (const auto &other : other_operations()) {
            if ((!chosen.other.empty() && other.title != chosen.other) || number++ % 2 == chosen.left_out)
                continue;
            const auto begun = std::chrono::steady_clock::now();
            const auto problem = try_pair(arena, stopped, static_cast<int>(i + 1), points[i], other);
            pairs += problem.has_value();
            broken += problem && !problem->empty();
            if (problem && (!problem->empty() || chosen.is_verbose))
                std::cout << "  " << stopped.title << " | stopped at " << i + 1 << " (" << points[i] << ") | "
                          << other.title << " | " << table << ": " << (problem->empty() ? "correct" : *problem) << ", "
                          << (std::chrono::steady_clock::now() - begun) / 1us << " us\n";
        }
    }
    janitor.query("VACUUM shedlock");
    std::cout << (broken ? "not ok" : "ok") << " - " << stopped.title << " (" << table << "): " << pairs << " pairs at "
              << points.size() << " points, " << broken << " broken" << std::endl;
    return broken == 0;
}

} // namespace

int main(int argc, char **argv)
try {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    const bool is_verbose = !arguments.empty() && arguments[0] == "-v";
    if (is_verbose)
        arguments.erase(arguments.begin());
    if (arguments.size() < 4)
        throw std::runtime_error("usage: pairs [-v] DATABASE hot|moving old|none all|half [STOPPED [OTHER]]");
    arguments.resize(6);
    const auto &database = arguments[0];
    const bool moves_rows = arguments[1] == "moving";
    const bool has_old_snapshot = arguments[2] == "old";
    std::optional<std::size_t> left_out;
    if (arguments[3] == "half")
        left_out = (moves_rows + has_old_snapshot) % 2;
    make_database(database, moves_rows);

    bool is_good = true;
    arena arena{database, has_old_snapshot};
    session janitor{database};
    for (const auto &stopped : stopped_operations())
        if (arguments[4].empty() || stopped.title == arguments[4])
            is_good &= try_all(arena, janitor, stopped,
                               (moves_rows ? "updates move rows" : "HOT updates") +
                                   std::string{has_old_snapshot ? ", old snapshot" : ""},
                               {arguments[4], arguments[5], is_verbose, left_out});
    return is_good ? 0 : 1;
} catch (const std::exception &failure) {
    std::cout << "not ok - " << failure.what() << std::endl;
    return 1;
}
