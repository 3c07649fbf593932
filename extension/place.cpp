#include "place.hpp"

namespace shedlock {

namespace {

struct slot {
    uint64 hash;
    Oid table;
    place where;
};

// Enough for about ten thousand names. The system provides memory only for slots that are used: few names, few pages.
constexpr int slots = 16384;
slot remembered[slots];

slot &slot_of(uint64 hash)
{
    return remembered[hash % slots];
}

} // namespace

place recall_place(Oid table, std::string_view name)
{
    const uint64 hash = pg::hash_of(name, 0);
    const slot &kept = slot_of(hash);
    return kept.hash == hash && kept.table == table ? kept.where : place{{}, InvalidBuffer};
}

void remember_place(Oid table, std::string_view name, const place &where)
{
    const uint64 hash = pg::hash_of(name, 0);
    slot_of(hash) = {hash, table, where};
}

} // namespace shedlock
