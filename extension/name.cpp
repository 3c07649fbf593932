#include "name.hpp"

namespace shedlock {

void require_not_empty(const lock_name &name, const char *argument)
{
    if (name.bytes.empty())
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must not be empty", argument)));
}

void require_storable(const lock_name &name, int limit)
{
    require_not_empty(name, "name");
    if (name.bytes.front() == '{' && name.bytes.back() == '}')
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("name is an array literal: \"%.*s\"", SV(name.bytes)),
                 errhint("Where a function takes several names, cast them to text[]: $1::text[]. No lock has this as "
                         "its own name.")));
    if (name.bytes.size() <= static_cast<size_t>(limit))
        return; // no more characters than bytes
    const int length = pg_mbstrlen_with_len(name.bytes.data(), static_cast<int>(name.bytes.size()));
    if (length > limit)
        ereport(ERROR, (errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
                        errmsg("name is %d characters long, but the lock table's column holds %d", length, limit),
                        errdetail("The name begins with \"%.*s\".",
                                  pg_mbcharcliplen(name.bytes.data(), static_cast<int>(name.bytes.size()), 40),
                                  name.bytes.data())));
}

} // namespace shedlock
