// Our own SQLSTATEs, which clients test for. SL001, lock_lost: the caller no longer has the lease. SL002, lock_done:
// an extend or a release did nothing, because the acquisition was already released as done.
#pragma once

#include "pg.hpp"

#define ERRCODE_LOCK_LOST MAKE_SQLSTATE('S', 'L', '0', '0', '1')
#define ERRCODE_LOCK_DONE MAKE_SQLSTATE('S', 'L', '0', '0', '2')
