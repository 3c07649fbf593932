// Who waits for which lock, in the order in which they came; in shared memory. Whoever frees a lock wakes the first of
// them once his transaction has ended; whoever gives up passes that on. So a release costs one look, not one of each
// who waits. Nobody relies on being woken: as a net the first also looks by himself, and the others look after him
// (waiting.hpp).
#pragma once

#include "request.hpp"

namespace shedlock::queue {

// The first in a queue sleeps no longer before it looks by itself.
inline constexpr duration longest_nap = std::chrono::seconds{1};

// Its part of the shared memory.
Size size();
void initialize(void *memory, int tranche);
void use(void *memory);

// What is waited for: a lock of that table, or the end of a wait for several. Two with the same hash wake each other
// for nothing.
using key = uint64;
key key_of(Oid table, const lock_name &name);
key key_of_room(int64 room);

// The first who waits for that lock is woken when this transaction commits, or only if it aborts: what it has written
// keeps the lock from him for longer than he sleeps.
enum class ends { any, abort };
void wake_at(ends which, Oid table, const lock_name &name);
void at_end(ends which);

// Now: the first who was not woken before. Whether there was one.
bool wake(key what);

// What follows is for one who waits: from enter to leave he stands in the queue of each of these keys. Not if there is
// no memory, or no room in it: then nobody wakes him.
void enter(std::span<const key> what);
void leave();
bool is_standing();

bool was_woken(size_t i); // for this key, since it was last asked
size_t count_ahead(size_t i);

// It looks now. Whether the first has lately, so that who stands behind need not.
void note_look(size_t i);
bool is_looked_after(size_t i);

// If it was: that was of no use to it, and the next one is.
void pass_on(size_t i);
// It has what it waited for: when it leaves nobody need be woken.
void satisfy(size_t i);

// Stands there while `work` runs, and not when that has failed.
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
