#include "operations.hpp"

namespace {

#define JAVA_NOW "timezone('utc', CURRENT_TIMESTAMP)"
#define JAVA_UPDATE                                                                                                    \
    "lock_until = " JAVA_NOW " + make_interval(secs => 600), locked_at = " JAVA_NOW ", locked_by = 'java'"

const operation acquire{verb::acquire, "SELECT shedlock_acquire('{name}', '10 min')"};
const operation acquire_token{verb::acquire, "SELECT shedlock_acquire_token('{name}', '10 min')", true};
const operation acquire_both{verb::acquire, "SELECT shedlock_acquire_token(ARRAY['{name}', '{other}'], '10 min')", true,
                             true};
const operation acquire_tick{verb::acquire,
                             "SELECT shedlock_acquire('{name}', '10 min', tick => '2026-01-01 UTC', retry => true)",
                             false, false, shedlock::instant{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}}};
const operation fail{verb::release, "SELECT shedlock_release('{name}', done => false)", false, false, {}, false};
const operation fail_token{
    verb::release, "SELECT shedlock_release_token('{name}', {token}, done => false)", true, false, {}, false};
const operation pause_name{verb::pause, "SELECT shedlock_pause('{name}')"};
const operation extend{verb::extend, "SELECT shedlock_extend('{name}', '20 min')"};
const operation extend_token{verb::extend, "SELECT shedlock_extend_token('{name}', {token}, '20 min')", true};
const operation extend_both{verb::extend, "SELECT shedlock_extend_token(ARRAY['{name}', '{other}'], {token}, '20 min')",
                            true, true};
const operation release{verb::release, "SELECT shedlock_release('{name}')"};
const operation release_token{verb::release, "SELECT shedlock_release_token('{name}', {token})", true};
const operation release_both{verb::release, "SELECT shedlock_release_token(ARRAY['{name}', '{other}'], {token})", true,
                             true};
const operation force_release{verb::force_release, "SELECT shedlock_force_release('{name}')"};
const operation forget{verb::forget, "SELECT shedlock_forget('{name}')"};
const operation resume{verb::resume, "SELECT shedlock_resume('{name}')"};
const operation guard{verb::guard, "BEGIN; SELECT shedlock_guard('{name}'); COMMIT"};
const operation guard_token{verb::guard, "BEGIN; SELECT shedlock_guard_token('{name}', {token}); COMMIT", true};
const operation guard_and_release{
    verb::guard_and_release,
    "BEGIN; SELECT shedlock_guard_token('{name}', {token}); SELECT shedlock_release_token('{name}', {token}); COMMIT",
    true};
// Without BEGIN and COMMIT, so that the transaction may also stay open after the call.
const operation complete{verb::complete, "SELECT shedlock_complete('{name}')"};
const operation complete_token{verb::complete, "SELECT shedlock_complete_token('{name}', {token})", true};
const operation complete_both{verb::complete, "SELECT shedlock_complete_token(ARRAY['{other}', '{name}'], {token})",
                              true, true};
const operation guard_and_complete{
    verb::complete, "BEGIN; SELECT shedlock_guard_token('{name}', {token}); " + complete_token.sql + "; COMMIT", true};
const operation run{verb::run, "CALL shedlock_run('{name}', 'SELECT 1', '10 min')"};

// Exactly the statements that Java ShedLock 7 sends with usingDbTime(), except that the values are filled in.
const operation java_acquire{verb::java_acquire,
                             "INSERT INTO shedlock(name, lock_until, locked_at, locked_by) VALUES('{name}', " JAVA_NOW
                             " + make_interval(secs => 600), " JAVA_NOW ", 'java') ON CONFLICT (name) DO UPDATE "
                             "SET " JAVA_UPDATE " WHERE shedlock.name = '{name}' AND shedlock.lock_until <= " JAVA_NOW};
const operation java_update{verb::java_update, "UPDATE shedlock SET " JAVA_UPDATE
                                               " WHERE shedlock.name = '{name}' AND shedlock.lock_until <= " JAVA_NOW};
const operation java_unlock{
    verb::java_unlock, "UPDATE shedlock SET lock_until = CASE WHEN locked_at + make_interval(secs => 0) > " JAVA_NOW
                       " THEN locked_at + make_interval(secs => 0) ELSE " JAVA_NOW " END "
                       "WHERE name = '{name}' AND locked_by = 'java'"};
const operation java_extend{verb::java_extend, "UPDATE shedlock SET lock_until = " JAVA_NOW
                                               " + make_interval(secs => 600) WHERE name = '{name}' "
                                               "AND locked_by = 'java' AND lock_until > " JAVA_NOW};

const operation erase{verb::by_hand, "DELETE FROM shedlock WHERE name = '{name}'"};
const operation touch{verb::by_hand, "UPDATE shedlock SET lock_until = lock_until + '1 us' WHERE name = '{name}'"};
const operation expire{verb::by_hand,
                       "UPDATE shedlock SET lock_until = lock_until - interval '1 day', lock_at_least_until "
                       "= lock_at_least_until - interval '1 day' WHERE name = '{name}'"};
const operation lock{verb::maintenance, "SELECT FROM shedlock WHERE name = '{name}' FOR UPDATE"};
const operation vacuum{verb::maintenance, "VACUUM (INDEX_CLEANUP ON) shedlock"};
const operation reindex{verb::maintenance, "REINDEX INDEX CONCURRENTLY shedlock_pkey"};

operation repeatable_read(operation op)
{
    op.sql = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; " + op.sql + "; COMMIT";
    return op;
}

step by_itself(const operation &op)
{
    return {true, op.sql};
}
step by_another(const operation &op)
{
    return {false, op.sql};
}

} // namespace

const std::vector<stopped_operation> &stopped_operations()
{
    // If the stopped session prepared the row itself, it remembers where the row is; otherwise it must look it up.
    const std::vector<step> nothing;
    const std::vector<step> released{by_itself(acquire), by_itself(release)};
    const std::vector<step> released_by_another{by_another(acquire), by_another(release)};
    const std::vector<step> released_by_java{by_another(java_acquire), by_another(java_unlock)};
    const std::vector<step> failed{by_itself(acquire_tick), by_itself(fail)};
    const std::vector<step> failed_for_another{by_another(acquire_tick), by_another(fail)};
    const std::vector<step> held{by_itself(acquire)};
    const std::vector<step> held_and_moved{by_itself(acquire), by_another(touch)};
    const std::vector<step> held_by_another{by_another(acquire_token)};
    // If no old snapshot is open, VACUUM frees the space in front of the row, where rows of earlier pairs were. If
    // updates also move the row, the index will list the row's next version first.
    const std::vector<step> held_behind_space{by_another(acquire_token), by_another(vacuum)};
    const std::vector<step> both_held{by_another(acquire_both)};
    const std::vector<step> run_out{by_another(acquire_token), by_another(expire)};
    const std::vector<step> paused{by_another(pause_name)};
    static const std::vector<stopped_operation> all{
        {"acquire, no row", acquire, nothing},
        {"acquire, seen before", acquire, released},
        {"acquire, released by another", acquire, released_by_another},
        {"acquire, unlocked by Java", acquire, released_by_java},
        {"acquire, run out", acquire, run_out},
        {"acquire, held by another", acquire, held_by_another},
        {"acquire in REPEATABLE READ, released by another", repeatable_read(acquire), released_by_another},
        {"acquire token, released by another", acquire_token, released_by_another},
        {"acquire array, one has no row", acquire_both, released_by_another},
        {"acquire tick, no row", acquire_tick, nothing},
        {"acquire tick, failed before", acquire_tick, failed},
        {"acquire tick, released as failed by another", acquire_tick, failed_for_another},
        {"pause, released as failed by another", pause_name, failed_for_another},
        {"force_release, unlocked by Java", force_release, released_by_java},
        {"pause, released by another", pause_name, released_by_another},
        {"extend", extend, held},
        {"extend, moved since", extend, held_and_moved},
        {"extend token, never seen", extend_token, held_by_another},
        {"extend token, behind free space", extend_token, held_behind_space},
        {"extend array, never seen", extend_both, both_held},
        {"release", release, held},
        {"release, moved since", release, held_and_moved},
        {"release token, never seen", release_token, held_by_another},
        {"release array, never seen", release_both, both_held},
        {"guard", guard, held},
        {"guard token, never seen", guard_token, held_by_another},
        {"guard token, behind free space", guard_token, held_behind_space},
        {"guard token, run out", guard_token, run_out},
        {"guard token in REPEATABLE READ, never seen",
         {verb::guard,
          "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; SELECT shedlock_guard_token('{name}', {token}); COMMIT",
          true},
         held_by_another},
        {"guard and release token, never seen", guard_and_release, held_by_another},
        {"complete", complete, held},
        {"complete, moved since", complete, held_and_moved},
        {"complete token, never seen", complete_token, held_by_another},
        {"complete token, behind free space", complete_token, held_behind_space},
        {"complete token, run out", complete_token, run_out},
        {"complete token in REPEATABLE READ, never seen", repeatable_read(complete_token), held_by_another},
        {"complete array, never seen", complete_both, both_held},
        {"guard and complete token, never seen", guard_and_complete, held_by_another},
        {"force_release, held by another", force_release, held_by_another},
        {"force_release, seen before", force_release, held},
        {"resume, paused by another", resume, paused},
        {"resume, no row", resume, nothing},
        {"forget, seen before", forget, released},
        {"forget, released by another", forget, released_by_another},
        {"forget, unlocked by Java", forget, released_by_java},
        {"forget, run out", forget, run_out},
        {"forget, held by another", forget, held_by_another},
        {"run, no row", run, nothing},
        {"run, seen before", run, released},
    };
    return all;
}

const std::vector<other_operation> &other_operations()
{
    static const std::vector<other_operation> all{
        {"acquire", {acquire}, ""},
        {"acquire token", {acquire_token}, ""},
        {"acquire array", {acquire_both}, ""},
        {"acquire tick", {acquire_tick}, ""},
        {"extend token", {extend_token}, ""},
        {"release token", {release_token}, ""},
        {"release token as failed", {fail_token}, ""},
        {"force_release", {force_release}, ""},
        {"pause", {pause_name}, ""},
        {"resume", {resume}, ""},
        {"forget", {forget}, ""},
        {"its lease ends, forget", {expire, forget}, ""},
        {"its lease ends, forget, acquire", {expire, forget, acquire}, ""},
        {"its lease ends, forget, committed afterwards", {expire, forget}, "COMMIT"},
        {"its lease ends, forget, rolled back afterwards", {expire, forget}, "ROLLBACK"},
        {"guard token", {guard_token}, ""},
        {"complete token", {complete_token}, ""},
        {"complete array", {complete_both}, ""},
        {"guard and complete token", {guard_and_complete}, ""},
        {"run", {run}, ""},
        {"Java's insert", {java_acquire}, ""},
        {"Java's update", {java_update}, ""},
        {"Java's unlock", {java_unlock}, ""},
        {"Java's extend", {java_extend}, ""},
        {"DELETE", {erase}, ""},
        {"UPDATE", {touch}, ""},
        {"VACUUM", {vacuum}, ""},
        {"REINDEX CONCURRENTLY", {reindex}, ""},
        {"UPDATE, UPDATE", {touch, touch}, ""},
        {"UPDATE, VACUUM", {touch, vacuum}, ""},
        {"DELETE, VACUUM", {erase, vacuum}, ""},
        {"extend token, release token", {extend_token, release_token}, ""},
        {"acquire, release", {acquire, release}, ""},
        {"acquire, release, DELETE", {acquire, release, erase}, ""},
        {"acquire token, UPDATE", {acquire_token, touch}, ""},
        {"DELETE, acquire", {erase, acquire}, ""},
        {"DELETE, acquire, release, DELETE", {erase, acquire, release, erase}, ""},
        {"DELETE, Java's insert", {erase, java_acquire}, ""},
        {"Java's insert, Java's unlock, DELETE", {java_acquire, java_unlock, erase}, ""},
        {"its lease ends", {expire}, ""},
        {"its lease ends, acquire", {expire, acquire}, ""},
        {"its lease ends, acquire, release", {expire, acquire, release}, ""},
        {"its lease ends, acquire, release, DELETE", {expire, acquire, release, erase}, ""},
        {"its lease ends, Java's update", {expire, java_update}, ""},
        {"its lease ends, complete token", {expire, complete_token}, ""},
        {"release token, complete token", {release_token, complete_token}, ""},
        {"force_release, acquire", {force_release, acquire}, ""},
        {"force_release, DELETE", {force_release, erase}, ""},
        {"resume, acquire", {resume, acquire}, ""},
        {"acquire, committed afterwards", {acquire}, "COMMIT"},
        {"acquire, rolled back afterwards", {acquire}, "ROLLBACK"},
        {"its lease ends, acquire, committed afterwards", {expire, acquire}, "COMMIT"},
        {"release token, committed afterwards", {release_token}, "COMMIT"},
        {"release token, rolled back afterwards", {release_token}, "ROLLBACK"},
        {"release token as failed, committed afterwards", {fail_token}, "COMMIT"},
        {"release token as failed, rolled back afterwards", {fail_token}, "ROLLBACK"},
        {"extend token, committed afterwards", {extend_token}, "COMMIT"},
        {"complete token, committed afterwards", {complete_token}, "COMMIT"},
        {"complete token, rolled back afterwards", {complete_token}, "ROLLBACK"},
        {"its lease ends, complete token, committed afterwards", {expire, complete_token}, "COMMIT"},
        {"Java's insert, committed afterwards", {java_acquire}, "COMMIT"},
        {"Java's insert, rolled back afterwards", {java_acquire}, "ROLLBACK"},
        {"UPDATE, committed afterwards", {touch}, "COMMIT"},
        {"DELETE, committed afterwards", {erase}, "COMMIT"},
        {"DELETE, rolled back afterwards", {erase}, "ROLLBACK"},
        {"SELECT FOR UPDATE, committed afterwards", {lock}, "COMMIT"},
        {"UPDATE, begun before, committed meanwhile", {touch}, "COMMIT", true},
        {"DELETE, begun before, committed meanwhile", {erase}, "COMMIT", true},
    };
    return all;
}
