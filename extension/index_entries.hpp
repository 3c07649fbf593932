// Entries for a new row version in the indexes of its table, as the executor makes them. Only for tables whose indexes
// have no expressions and no predicates, which the inspection of each of our tables ensures.
#pragma once

#include "pg.hpp"

namespace shedlock {

// Calls `on_conflict(index)` if a unique index has another live or uncommitted row with that key; with UNIQUE_CHECK_YES
// the server reports that itself.
template <typename Conflict>
void insert_index_entries(Relation table, HeapTuple tuple, IndexUniqueCheck check, Conflict on_conflict)
{
    List *const indexes = RelationGetIndexList(table);
    ListCell *cell;
    foreach (cell, indexes) {
        const Relation index = index_open(lfirst_oid(cell), RowExclusiveLock);
        if (index->rd_index->indisready) {
            Datum entry[INDEX_MAX_KEYS];
            bool nulls[INDEX_MAX_KEYS];
            for (int i = 0; i < index->rd_index->indnatts; i++)
                entry[i] = heap_getattr(tuple, index->rd_index->indkey.values[i], RelationGetDescr(table), &nulls[i]);
            const bool unique = index->rd_index->indisunique;
            const bool inserted = index_insert(index, entry, nulls, &tuple->t_self, table,
                                               unique ? check : UNIQUE_CHECK_NO, false, BuildIndexInfo(index));
            if (unique && check == UNIQUE_CHECK_PARTIAL && !inserted)
                on_conflict(index);
        }
        index_close(index, NoLock);
    }
}

} // namespace shedlock
