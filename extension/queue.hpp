// In shared memory: the sessions that wait for each lock, in the order in which they came. A transaction that frees a
// lock wakes the first of them once it has ended; a session that gives up wakes the next. So a release costs one look,
// not one for each waiter. No session relies on being woken: the first also looks by itself, and the others check that
// it still does (waiting.hpp).
#pragma once

#include "name.hpp"

namespace shedlock::queue {

// The first in a queue looks by itself at least once in that time.
inline constexpr duration poll_interval = std::chrono::seconds{1};

// The size of its part of the shared memory.
Size size();
void initialize(void *memory, int tranche);
void use(void *memory);

// What a session waits for: a lock of that table, or shedlock_end_wait(wait_id). Two locks with the same hash wake each
// other's waiters needlessly.
using key = uint64;
key key_of(Oid table, const lock_name &name);
key key_of_wait(int64 wait_id);

// Wakes the first session that waits for the lock, after this transaction has ended. With ends::abort, only if it
// aborts: used when the lock stays taken after the commit for longer than the first waiter sleeps anyway.
enum class ends { any, abort };
void wake_at(ends which, Oid table, const lock_name &name);
void at_end(ends which); // of this transaction: ends::abort if it aborts, otherwise ends::any

// Wakes at once the first session that waits for this and has not been woken. Returns whether there is one.
bool wake(key what);

// The functions below are for the session that waits. From enter to leave it has a place in the queue of each of these
// keys, which are distinct; `i` is the index of one of them. It has none, and is never woken, if there is no shared
// memory, or if there are too few vacant places for several keys. For one key there is always a place.
void enter(std::span<const key> what);
void leave();
bool is_queued();

bool was_woken(size_t i); // since the last call
size_t count_ahead(size_t i);

void note_look(size_t i);       // this session looks at the lock now
bool is_looked_after(size_t i); // another session is first and has looked lately, so this one need not

// Wakes the next session in the queue if was_woken(i) has just returned true. For a session that was woken and has no
// use for the lock.
void pass_on(size_t i);
// This session, or a caller for which it waits, has taken or will take the lock, so leave() need not wake another.
void satisfy(size_t i);

// Keeps the places while `work` runs, and leaves them even if `work` fails.
template <typename Work> void while_queued(std::span<const key> what, Work work)
{
    const auto leave_in_need = [](int, Datum) { leave(); };
    enter(what);
    PG_ENSURE_ERROR_CLEANUP(leave_in_need, Datum{0});
    work();
    PG_END_ENSURE_ERROR_CLEANUP(leave_in_need, Datum{0});
    leave();
}

} // namespace shedlock::queue
