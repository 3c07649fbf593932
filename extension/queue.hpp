// Who waits for which lock, in the order in which they came; in shared memory. Whoever frees a lock wakes the first of
// them once the transaction has ended; whoever gives up wakes the next. So a release costs one look, not one of each
// who waits. Nobody relies on being woken: the first also looks by itself, and the others look whether it still does
// (waiting.hpp).
#pragma once

#include "request.hpp"

namespace shedlock::queue {

// The first in a queue looks by itself at least that often.
inline constexpr duration longest_nap = std::chrono::seconds{1};

// Its part of the shared memory.
Size size();
void initialize(void *memory, int tranche);
void use(void *memory);

// What is waited for: a lock of that table, or shedlock_end_wait(room). Those of two with the same hash wake each other
// for nothing.
using key = uint64;
key key_of(Oid table, const lock_name &name);
key key_of_room(int64 room);

// Wakes the first who waits for that lock when this transaction has ended. Only if it aborts, where what it has written
// keeps the lock taken for longer than the first sleeps anyway.
enum class ends { any, abort };
void wake_at(ends which, Oid table, const lock_name &name);
void at_end(ends which);

// Wakes now the first who waits for that and has not been woken. Whether there is one.
bool wake(key what);

// What follows is for the session that waits. From enter to leave it has a place in the queue of each of these keys,
// which are distinct, and `i` is one of them. It has none, and nobody wakes it, if there is no memory, or if there are
// too few vacant places for several keys. For one key there always is a place.
void enter(std::span<const key> what);
void leave();
bool is_standing();

bool was_woken(size_t i); // since it was last asked
size_t count_ahead(size_t i);

void note_look(size_t i);       // this session looks at the lock now
bool is_looked_after(size_t i); // another is first, and has looked lately: this one need not

// Wakes the next one, if was_woken has just been true here: this session had no use for it.
void pass_on(size_t i);
// This session takes the lock: when it leaves nobody need be woken.
void satisfy(size_t i);

// Stands there while `work` runs; leaves even if that fails.
template <typename Work> void while_standing(std::span<const key> what, Work work)
{
    const auto leave_in_need = [](int, Datum) { leave(); };
    enter(what);
    PG_ENSURE_ERROR_CLEANUP(leave_in_need, Datum{0});
    work();
    PG_END_ENSURE_ERROR_CLEANUP(leave_in_need, Datum{0});
    leave();
}

} // namespace shedlock::queue
