#include "row_hint.hpp"

namespace shedlock {

namespace {

struct slot {
    uint64 hash;
    Oid table;
    row_hint where;
};

// Enough for about ten thousand names. The system provides memory only for slots that are used: few names, few pages.
constexpr int slots = 16384;
slot remembered[slots];

slot &slot_of(uint64 hash)
{
    return remembered[hash % slots];
}

} // namespace

row_hint recall_row(Oid table, uint64 hash)
{
    const slot &kept = slot_of(hash);
    return kept.hash == hash && kept.table == table ? kept.where : row_hint{{}, InvalidBuffer};
}

void remember_row(Oid table, uint64 hash, const row_hint &where)
{
    slot_of(hash) = {hash, table, where};
}

} // namespace shedlock
